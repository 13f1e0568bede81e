// The endpoint picker of the Gateway API Inference Extension: it tells a gateway which server is to answer a request.
//
// The published program listens on all addresses. This one starts the same parts where it is told to listen: the informers
// of one InferencePool and its pods, the scraping of their metrics, flow control if the configuration has its feature gate,
// the scheduler with its plugins and the server that the gateway asks. InferenceObjectives and InferenceModelRewrites, which
// nothing here uses, are not read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	inference "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/common"
	backendmetrics "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend/metrics"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/config/loader"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/controller"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/datastore"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/flowcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/flowcontrol/contracts"
	flowcontroller "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/flowcontrol/controller"
	flowregistry "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/flowcontrol/registry"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/handlers"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/metrics"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/requestcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/saturationdetector/framework/plugins/utilizationdetector"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/multi/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/picker"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/profile"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/scorer"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/server"
)

// podsKnown is how long flow control takes its last look at the pods for true, as in the published program.
const podsKnown = 50 * time.Millisecond

type options struct {
	config, pool, namespace, extproc, health, metrics string
}

func parse() options {
	var o options
	flag.StringVar(&o.config, "config-file", "", "the EndpointPickerConfig")
	flag.StringVar(&o.pool, "pool-name", "", "the InferencePool")
	flag.StringVar(&o.namespace, "pool-namespace", "default", "its namespace, and that of its pods")
	flag.StringVar(&o.extproc, "ext-proc-bind-address", "127.0.0.1:9002", "where the gateway asks, by gRPC")
	flag.StringVar(&o.health, "health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	flag.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	flag.Parse()
	return o
}

func newManager(o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), inference.Install(scheme)); err != nil {
		return nil, err
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{o.namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				&inference.InferencePool{}: {Field: fields.OneTermEqualSelector("metadata.name", o.pool)},
			},
		},
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress: o.health,
	})
}

// newStore returns what is known of the pods and scraped from their servers, under vLLM's names.
func newStore(ctx context.Context, defaults *server.Options) (datastore.Datastore, error) {
	mapping, err := backendmetrics.NewMetricMapping(defaults.TotalQueuedRequestsMetric, defaults.TotalRunningRequestsMetric,
		defaults.KVCacheUsagePercentageMetric, defaults.LoRAInfoMetric, defaults.CacheInfoMetric)
	if err != nil {
		return nil, err
	}
	scraper := &backendmetrics.PodMetricsClientImpl{
		MetricMapping:            mapping,
		ModelServerMetricsPath:   defaults.ModelServerMetricsPath,
		ModelServerMetricsScheme: "http",
		Client:                   http.DefaultClient,
	}
	factory := backendmetrics.NewPodMetricsFactory(scraper, defaults.RefreshMetricsInterval)
	return datastore.NewDatastore(ctx, factory, 0), nil
}

func setUpControllers(made ctrl.Manager, store datastore.Datastore, o options) error {
	pool := common.GKNN{
		NamespacedName: types.NamespacedName{Namespace: o.namespace, Name: o.pool},
		GroupKind:      schema.GroupKind{Group: inference.GroupName, Kind: "InferencePool"},
	}
	pools := &controller.InferencePoolReconciler{Datastore: store, Reader: made.GetClient(), PoolGKNN: pool}
	pods := &controller.PodReconciler{Datastore: store, Reader: made.GetClient()}
	return errors.Join(pools.SetupWithManager(made), pods.SetupWithManager(made))
}

// newDirector returns the scheduler with the plugins that the file names, and what stands around it.
func newDirector(ctx context.Context, store datastore.Datastore, file, pool string) (*requestcontrol.Director, error) {
	plugins.Register(prefix.PrefixCachePluginType, prefix.PrefixCachePluginFactory)
	plugins.Register(scorer.QueueScorerType, scorer.QueueScorerFactory)
	plugins.Register(scorer.KvCacheUtilizationScorerType, scorer.KvCacheUtilizationScorerFactory)
	plugins.Register(scorer.RunningRequestsSizeScorerType, scorer.RunningRequestsSizeScorerFactory)
	plugins.Register(picker.MaxScorePickerType, picker.MaxScorePickerFactory)
	plugins.Register(picker.RandomPickerType, picker.RandomPickerFactory)
	plugins.Register(profile.SingleProfileHandlerType, profile.SingleProfileHandlerFactory)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	loader.RegisterFeatureGate(flowcontrol.FeatureGate)
	raw, gates, err := loader.LoadRawConfig(data, ctrl.Log)
	if err != nil {
		return nil, err
	}
	handle := plugins.NewEppHandle(ctx, func() []types.NamespacedName {
		names := []types.NamespacedName{}
		for _, endpoint := range store.PodList(datastore.AllPodsPredicate) {
			names = append(names, endpoint.GetMetadata().NamespacedName)
		}
		return names
	})
	config, err := loader.InstantiateAndConfigure(raw, handle, ctrl.Log)
	if err != nil {
		return nil, err
	}
	control := requestcontrol.NewConfig()
	control.AddPlugins(handle.GetAllPlugins()...)
	control.WithPrepareDataPlugins() // none: they are behind a gate upstream
	var locator contracts.PodLocator = requestcontrol.NewDatastorePodLocator(store)
	detector := utilizationdetector.NewDetector(config.SaturationDetectorConfig, ctrl.Log)
	var admission requestcontrol.AdmissionController = requestcontrol.NewLegacyAdmissionController(detector, locator)
	if gates[flowcontrol.FeatureGate] {
		locator = requestcontrol.NewCachedPodLocator(ctx, locator, podsKnown)
		if admission, err = newQueue(ctx, detector, locator, pool); err != nil {
			return nil, err
		}
	}
	return requestcontrol.NewDirectorWithConfig(
		store, scheduling.NewSchedulerWithConfig(config.SchedulerConfig), admission, locator, control), nil
}

// newQueue returns flow control with its defaults: it holds requests, without a limit of time, while no pod can take them.
func newQueue(ctx context.Context, detector *utilizationdetector.Detector, locator contracts.PodLocator, pool string,
) (requestcontrol.AdmissionController, error) {
	flows, err := flowregistry.NewConfig()
	if err != nil {
		return nil, err
	}
	config, err := (&flowcontrol.Config{Controller: flowcontroller.Config{}, Registry: flows}).ValidateAndApplyDefaults()
	if err != nil {
		return nil, err
	}
	registry, err := flowregistry.NewFlowRegistry(config.Registry, ctrl.Log)
	if err != nil {
		return nil, err
	}
	queue, err := flowcontroller.NewFlowController(ctx, config.Controller, registry, detector, locator)
	if err != nil {
		return nil, err
	}
	go registry.Run(ctx)
	return requestcontrol.NewFlowControlAdmissionController(queue, pool), nil
}

// serve answers the gateway until the context ends.
func serve(address string, store datastore.Datastore, director *requestcontrol.Director) manager.RunnableFunc {
	return func(ctx context.Context) error {
		backendmetrics.StartMetricsLogger(ctx, store, 5*time.Second, 2*time.Second)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		made := grpc.NewServer()
		extproc.RegisterExternalProcessorServer(made, handlers.NewStreamingServer(store, director))
		context.AfterFunc(ctx, made.Stop)
		return made.Serve(listener)
	}
}

// scraped is ready when the pool has a pod, whose servers' metrics were read.
func scraped(store datastore.Datastore) func(*http.Request) error {
	return func(*http.Request) error {
		endpoints := store.PodList(func(endpoint backendmetrics.PodMetrics) bool {
			return time.Since(endpoint.GetMetrics().UpdateTime) < 2*time.Second
		})
		if len(endpoints) == 0 {
			return errors.New("no pod of the pool is ready and has metrics")
		}
		return nil
	}
}

func run(o options) error {
	ctx := ctrl.SetupSignalHandler()
	made, err := newManager(o)
	if err != nil {
		return err
	}
	store, err := newStore(ctx, server.NewOptions())
	if err != nil {
		return err
	}
	if err := setUpControllers(made, store, o); err != nil {
		return err
	}
	director, err := newDirector(ctx, store, o.config, o.pool)
	if err != nil {
		return err
	}
	metrics.Register()
	if err := made.AddReadyzCheck("endpoints", scraped(store)); err != nil {
		return err
	}
	if err := made.Add(serve(o.extproc, store, director)); err != nil {
		return err
	}
	return made.Start(ctx)
}

func main() {
	o := parse()
	ctrl.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "endpoint-picker:", err)
		os.Exit(1)
	}
}
