// The PyTorchJob reconciler of the Kubeflow training-operator as a process of its own.
//
// The published program also starts a webhook server on all addresses and a certificate rotator with a fixed
// folder in /tmp; neither can be switched off. This one starts the same reconciler with what a rehearsal needs:
// loopback only, settable request rates, an init container for nodes without a registry, and a readiness probe that means "my
// informers have synced".
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type options struct {
	health, metrics     string
	image, template     string
	qps, burst, threads int
}

func parse() options {
	var o options
	flag.StringVar(&o.health, "health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	flag.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	flag.StringVar(&o.image, "pytorch-init-container-image", config.PyTorchInitContainerImageDefault, "image of the init container of workers")
	flag.StringVar(&o.template, "pytorch-init-container-template-file", config.PyTorchInitContainerTemplateFileDefault, "template of the init container of workers")
	flag.IntVar(&o.qps, "kube-api-qps", 500, "requests a second to the API server")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "requests at once to the API server")
	flag.IntVar(&o.threads, "controller-threads", 8, "jobs reconciled at once")
	flag.Parse()
	return o
}

// synced is ready when every informer that the reconciler reads from has its first list.
func synced(informers cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		for _, kind := range []client.Object{&kubeflow.PyTorchJob{}, &corev1.Pod{}, &corev1.Service{}} {
			informer, err := informers.GetInformer(request.Context(), kind, cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			if !informer.HasSynced() {
				return fmt.Errorf("%T: informer has not synced", kind)
			}
		}
		return nil
	}
}

func run(o options) error {
	config.Config.PyTorchInitContainerTemplateFile = o.template
	config.Config.PyTorchInitContainerImage = o.image
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault

	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := kubeflow.AddToScheme(scheme); err != nil {
		return err
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	rest.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.qps), o.burst)
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: o.health,
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
	})
	if err != nil {
		return err
	}
	reconciler := controllers.SupportedSchemeReconciler[kubeflow.PyTorchJobKind]
	if err := reconciler(manager, common.GenNonGangSchedulerSetupFunc(), o.threads); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("informers", synced(manager.GetCache())); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	o := parse()
	// Every reconcile writes several lines at the info level; under load that is a tenth of the CPU time.
	ctrl.SetLogger(zap.New(zap.Level(zapcore.WarnLevel)))
	logrus.SetLevel(logrus.WarnLevel)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "training-operator:", err)
		os.Exit(1)
	}
}
