// The scheduler of scheduler-plugins with its coscheduling plugin, and the controller of PodGroups, as two processes.
//
// The published scheduler registers thirteen more plugins and what they need; the published controller asks the API server
// five times a second at most. These are the same parts without that.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/controllers"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // CoschedulingArgs in the scheduler's configuration
)

// controller writes into the status of PodGroups how far their pods are. The scheduler does not read it.
func controller(arguments []string) error {
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	health := flags.String("health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	metrics := flags.String("metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	qps := flags.Float64("kube-api-qps", 500, "requests a second to the API server")
	burst := flags.Int("kube-api-burst", 1000, "requests at once to the API server")
	workers := flags.Int("workers", 8, "groups that are looked at at once")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(*qps), *burst
	made, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *health,
	})
	if err != nil {
		return err
	}
	groups := &controllers.PodGroupReconciler{Client: made.GetClient(), Scheme: scheme, Workers: *workers}
	if err := groups.SetupWithManager(made); err != nil {
		return err
	}
	// Ready when both kinds were listed, not when the process is there.
	synced := make(chan struct{})
	if err := made.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.PodGroup{}} {
			if _, err := made.GetCache().GetInformer(ctx, kind); err != nil {
				return err
			}
		}
		close(synced)
		return nil
	})); err != nil {
		return err
	}
	if err := made.AddReadyzCheck("informers", ready(synced)); err != nil {
		return err
	}
	return made.Start(ctrl.SetupSignalHandler())
}

// ready is a check that holds once the channel is closed.
func ready(synced <-chan struct{}) func(*http.Request) error {
	return func(*http.Request) error {
		select {
		case <-synced:
			return nil
		default:
			return fmt.Errorf("the informers have not synced")
		}
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "controller" {
		if err := controller(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "coscheduling controller:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}
