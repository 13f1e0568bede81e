// The AppWrapper controller and its webhooks as a process of its own.
//
// The published program keeps its certificate by a rotator that rewrites webhook configurations, and its webhooks listen
// on all addresses. This one starts the same parts on loopback, with a certificate that the instance has made.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/pkg/config"
	"github.com/project-codeflare/appwrapper/pkg/controller"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

type options struct {
	health, metrics, webhooks, certificate, key string
	qps, burst                                  int
}

func parse() options {
	var o options
	flag.StringVar(&o.health, "health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	flag.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	flag.StringVar(&o.certificate, "tls-cert-file", "", "certificate of the webhooks")
	flag.StringVar(&o.key, "tls-private-key-file", "", "its key")
	flag.StringVar(&o.webhooks, "webhook-bind-address", "127.0.0.1:9443", "address of the webhooks")
	flag.IntVar(&o.qps, "kube-api-qps", 500, "requests a second to the API server")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "requests at once to the API server")
	flag.Parse()
	return o
}

// synced is ready when the webhooks listen and the informer of the wrappers has its first list.
func synced(manager ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if err := manager.GetWebhookServer().StartedChecker()(request); err != nil {
			return err
		}
		informer, err := manager.GetCache().GetInformer(request.Context(), &v1beta2.AppWrapper{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if !informer.HasSynced() {
			return fmt.Errorf("the informer has not synced")
		}
		return nil
	}
}

// address takes an address apart.
func address(text string) (string, int, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.Atoi(port)
	return host, number, err
}

func run(o options) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1beta2.AddToScheme(scheme); err != nil {
		return err
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	rest.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.qps), o.burst)
	host, port, err := address(o.webhooks)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: o.health,
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: host, Port: port,
			CertDir: filepath.Dir(o.certificate), CertName: filepath.Base(o.certificate), KeyName: filepath.Base(o.key),
		}),
	})
	if err != nil {
		return err
	}
	settings := config.NewAppWrapperConfig()
	if err := config.ValidateAppWrapperConfig(settings); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := controller.SetupIndexers(ctx, manager, settings); err != nil {
		return err
	}
	if err := controller.SetupWebhooks(manager, settings); err != nil {
		return err
	}
	if err := controller.SetupControllers(manager, settings); err != nil {
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
		fmt.Fprintln(os.Stderr, "appwrapper:", err)
		os.Exit(1)
	}
}
