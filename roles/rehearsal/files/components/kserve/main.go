// KServe's controller of InferenceServices and its webhooks as a process of its own.
//
// The published program has no setting for the address of its webhooks, which listen on all, and starts controllers of
// kinds that nothing here uses. This one starts the controller of InferenceServices with what a rehearsal needs: loopback
// only, settable request rates and certificates that the instance has made. Its settings are, as in an installation, in
// ConfigMap inferenceservice-config.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kserve/kserve/pkg/apis/serving/v1alpha1"
	"github.com/kserve/kserve/pkg/apis/serving/v1beta1"
	"github.com/kserve/kserve/pkg/controller/v1beta1/inferenceservice"
	kservescheme "github.com/kserve/kserve/pkg/scheme"
	"github.com/kserve/kserve/pkg/webhook/admission/pod"
	"github.com/kserve/kserve/pkg/webhook/admission/servingruntime"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type options struct {
	health, metrics, webhooks, certificate, key string
	qps                                         float64
}

func parse() options {
	var o options
	flag.StringVar(&o.health, "health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	flag.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	flag.StringVar(&o.webhooks, "webhook-bind-address", "127.0.0.1:9443", "address of the webhooks")
	flag.StringVar(&o.certificate, "tls-cert-file", "", "certificate of the webhooks")
	flag.StringVar(&o.key, "tls-private-key-file", "", "its key")
	flag.Float64Var(&o.qps, "kube-api-qps", 500, "requests per second")
	flag.Parse()
	return o
}

// synced is ready when the webhooks listen and the informers have their first lists.
func synced(manager ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if err := manager.GetWebhookServer().StartedChecker()(request); err != nil {
			return err
		}
		for _, kind := range []client.Object{&v1beta1.InferenceService{}, &v1alpha1.ServingRuntime{}, &corev1.Pod{}} {
			informer, err := manager.GetCache().GetInformer(request.Context(), kind, cache.BlockUntilSynced(false))
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

func newManager(o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := kservescheme.AddAll(scheme); err != nil {
		return nil, err
	}
	host, text, err := net.SplitHostPort(o.webhooks)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	cached, err := inferenceservice.NewCacheOptions()
	if err != nil {
		return nil, err
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	rest.QPS, rest.Burst = float32(o.qps), 2*int(o.qps)
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cached,
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress: o.health,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: host, Port: port,
			CertDir: filepath.Dir(o.certificate), CertName: filepath.Base(o.certificate), KeyName: filepath.Base(o.key),
		}),
	})
}

func setUpController(ctx context.Context, manager ctrl.Manager, clients kubernetes.Interface) error {
	settings, err := v1beta1.GetInferenceServiceConfigMap(ctx, clients)
	if err != nil {
		return err
	}
	deploy, err := v1beta1.NewDeployConfig(settings)
	if err != nil {
		return err
	}
	ingress, err := v1beta1.NewIngressConfig(settings)
	if err != nil {
		return err
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	controller := &inferenceservice.InferenceServiceReconciler{
		Client:    manager.GetClient(),
		Clientset: clients,
		Log:       ctrl.Log.WithName("InferenceService"),
		Scheme:    manager.GetScheme(),
		Recorder:  events.NewRecorder(manager.GetScheme(), corev1.EventSource{Component: "v1beta1Controllers"}),
	}
	return controller.SetupWithManager(manager, deploy, ingress)
}

func setUpWebhooks(manager ctrl.Manager, clients kubernetes.Interface) error {
	server, decoder := manager.GetWebhookServer(), admission.NewDecoder(manager.GetScheme())
	server.Register("/mutate-pods", &webhook.Admission{
		Handler: &pod.Mutator{Client: manager.GetClient(), Clientset: clients, Decoder: decoder},
	})
	server.Register("/validate-serving-kserve-io-v1alpha1-servingruntime", &webhook.Admission{
		Handler: &servingruntime.ServingRuntimeValidator{Client: manager.GetClient(), Decoder: decoder},
	})
	server.Register("/validate-serving-kserve-io-v1alpha1-clusterservingruntime", &webhook.Admission{
		Handler: &servingruntime.ClusterServingRuntimeValidator{Client: manager.GetClient(), Decoder: decoder},
	})
	return ctrl.NewWebhookManagedBy(manager).
		For(&v1beta1.InferenceService{}).
		WithDefaulter(&v1beta1.InferenceServiceDefaulter{}).
		WithValidator(&v1beta1.InferenceServiceValidator{}).
		Complete()
}

func run(o options) error {
	ctx := ctrl.SetupSignalHandler()
	manager, err := newManager(o)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(manager.GetConfig())
	if err != nil {
		return err
	}
	if err := setUpController(ctx, manager, clients); err != nil {
		return err
	}
	if err := setUpWebhooks(manager, clients); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("informers", synced(manager)); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func main() {
	o := parse()
	ctrl.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "kserve:", err)
		os.Exit(1)
	}
}
