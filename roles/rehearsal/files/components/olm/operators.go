package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	reconcilers "github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/catalog"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/olm"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/validatingroundtripper"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/operatorclient"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/queueinformer"
	"github.com/sirupsen/logrus"
	"golang.org/x/net/proxy"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// How often OLM looks at everything again; it otherwise acts on changes.
const resync = time.Minute

// runOperators runs OLM's controllers, keeps the default CatalogSources and plays PackageManifests.
func runOperators(ctx context.Context, o options, ready *readiness, log *logrus.Logger) error {
	dialTo(o.others)
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	if err := startCatalogOperator(ctx, o, log); err != nil {
		return fmt.Errorf("catalog operator: %w", err)
	}
	if err := startOperatorOperator(ctx, rest.CopyConfig(config), log); err != nil {
		return fmt.Errorf("olm operator: %w", err)
	}
	go servePackages(ctx, config, o, log)
	manager, err := newManager(config)
	if err != nil {
		return err
	}
	ready.Store(true)
	return manager.Start(ctx)
}

// dialTo makes connections to registry pods (<name>.<namespace>.svc:50051) end at address: outside of the cluster there
// is no DNS of services. OLM asks for a proxy for all addresses but loopback, and this is what it gets.
func dialTo(address string) {
	if address == "" {
		return
	}
	os.Setenv("GRPC_PROXY", "http://catalog.invalid")
	os.Setenv("NO_PROXY", "")
	os.Setenv("no_proxy", "")
	proxy.RegisterDialerType("http", func(*url.URL, proxy.Dialer) (proxy.Dialer, error) {
		return onlyTo(address), nil
	})
}

// onlyTo dials one address, whatever it is asked for.
type onlyTo string

func (to onlyTo) Dial(network, _ string) (net.Conn, error) { return net.Dial(network, string(to)) }

// startCatalogOperator resolves Subscriptions and carries out InstallPlans.
func startCatalogOperator(ctx context.Context, o options, log *logrus.Logger) error {
	// It posts these kinds, and checks that it labelled them.
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			return err
		}
	}
	const image = "played-no-image-is-pulled"
	operator, err := catalog.NewOperator(ctx, o.kubeconfig, clock.RealClock{}, log, resync, image, image, image,
		o.namespace, scheme.Scheme, time.Minute, 10*time.Minute, -1)
	if err != nil {
		return err
	}
	operator.Run(ctx)
	<-operator.Ready()
	return nil
}

// startOperatorOperator installs what ClusterServiceVersions describe.
func startOperatorOperator(ctx context.Context, config *rest.Config, log *logrus.Logger) error {
	validating := validatingroundtripper.Wrap(rest.CopyConfig(config), scheme.Scheme)
	operatorClient, err := operatorclient.NewClientFromRestConfig(validating)
	if err != nil {
		return err
	}
	resources, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	openshift, err := configclient.NewForConfig(config)
	if err != nil {
		return err
	}
	operator, err := olm.NewOperator(ctx,
		olm.WithLogger(log),
		olm.WithResyncPeriod(queueinformer.ResyncWithJitter(resync, 0.2)),
		olm.WithExternalClient(resources),
		olm.WithMetadataClient(metadataClient),
		olm.WithOperatorClient(operatorClient),
		olm.WithRestConfig(validating),
		olm.WithConfigClient(openshift),
	)
	if err != nil {
		return err
	}
	operator.Run(ctx)
	<-operator.Ready()
	return nil
}

// newManager holds OLM's newer controllers: Operators, their components, OperatorConditions.
func newManager(config *rest.Config) (ctrl.Manager, error) {
	ctrl.SetLogger(zap.New(zap.UseDevMode(false)))
	kinds := runtime.NewScheme()
	if err := reconcilers.AddToScheme(kinds); err != nil {
		return nil, err
	}
	own, err := labels.NewRequirement(v1alpha1.CopiedLabelKey, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  kinds,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// A ClusterServiceVersion is copied into every namespace that its operator serves; only the first counts.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.ClusterServiceVersion{}: {Label: labels.NewSelector().Add(*own)},
		}},
	})
	if err != nil {
		return nil, err
	}
	logger := ctrl.Log
	conditions, err := reconcilers.NewOperatorConditionReconciler(manager.GetClient(), logger, kinds)
	if err != nil {
		return nil, err
	}
	generator, err := reconcilers.NewOperatorConditionGeneratorReconciler(manager.GetClient(), logger, kinds)
	if err != nil {
		return nil, err
	}
	operators, err := reconcilers.NewOperatorReconciler(manager.GetClient(), logger, kinds)
	if err != nil {
		return nil, err
	}
	adoption, err := reconcilers.NewAdoptionReconciler(manager.GetClient(), logger, kinds)
	if err != nil {
		return nil, err
	}
	for _, one := range []interface{ SetupWithManager(ctrl.Manager) error }{conditions, generator, operators, adoption} {
		if err := one.SetupWithManager(manager); err != nil {
			return nil, err
		}
	}
	return manager, nil
}
