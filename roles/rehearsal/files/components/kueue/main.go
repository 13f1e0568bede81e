// Kueue's controllers, scheduler and webhooks as a process of its own.
//
// The published program insists on a certificate rotator that rewrites definitions and webhook configurations, on a
// folder below /etc for its metrics, and on a visibility server that keeps certificates below /. This one starts the
// same parts with what a rehearsal needs: loopback only and certificates that the instance has made. As an installation
// does, it takes its settings from ConfigMap kueue-manager-config; when that changes it starts itself anew.
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

	zaplog "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuealpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	quotas "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/fairsharing"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
	"sigs.k8s.io/kueue/pkg/util/waitforpodsready"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

type options struct {
	config, merged, health, metrics, webhooks, certificate, key string
}

func parse() options {
	var o options
	flag.StringVar(&o.config, "config", "", "file with the configuration that an installation may change")
	flag.StringVar(&o.merged, "merged", "", "file that is written with what the ConfigMap changes of it")
	flag.StringVar(&o.health, "health-probe-bind-address", "127.0.0.1:0", "address of /healthz and /readyz")
	flag.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:0", "address of /metrics")
	flag.StringVar(&o.certificate, "tls-cert-file", "", "certificate of the webhooks")
	flag.StringVar(&o.key, "tls-private-key-file", "", "its key")
	flag.StringVar(&o.webhooks, "webhook-bind-address", "127.0.0.1:9443", "address of the webhooks")
	flag.Parse()
	return o
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	adders := []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, schedulingv1.AddToScheme,
		kueue.AddToScheme, kueuev1beta1.AddToScheme, kueuealpha.AddToScheme, configapi.AddToScheme,
	}
	for _, add := range adders {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, forEachKind(func(_ string, one jobframework.IntegrationCallbacks) error {
		if one.AddToScheme == nil {
			return nil
		}
		return one.AddToScheme(scheme)
	})
}

// synced is ready when the webhooks listen and every informer has its first list.
func synced(manager ctrl.Manager, informers cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		if err := manager.GetWebhookServer().StartedChecker()(request); err != nil {
			return err
		}
		for _, kind := range []client.Object{&kueue.Workload{}, &kueue.ClusterQueue{}, &kueue.LocalQueue{}} {
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
	ctx := ctrl.SetupSignalHandler()
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	given, err := readConfigMap(ctx, rest, scheme)
	if err != nil {
		return err
	}
	if err := merge(o.config, given.text, o.merged); err != nil {
		return err
	}
	managed, cfg, err := config.Load(scheme, o.merged)
	if err != nil {
		return err
	}
	if err := config.LoadAndValidateFeatureGates("", cfg.FeatureGates).ToAggregate(); err != nil {
		return err
	}
	if err := validate(&cfg, scheme).ToAggregate(); err != nil {
		return err
	}
	rest.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(*cfg.ClientConnection.QPS, int(*cfg.ClientConnection.Burst))
	host, port, err := address(o.webhooks)
	if err != nil {
		return err
	}
	managed.HealthProbeBindAddress = o.health
	managed.Metrics = metricsserver.Options{BindAddress: o.metrics}
	managed.WebhookServer = webhook.NewServer(webhook.Options{
		Host: host, Port: port,
		CertDir: filepath.Dir(o.certificate), CertName: filepath.Base(o.certificate), KeyName: filepath.Base(o.key),
	})
	metrics.Register()
	manager, err := ctrl.NewManager(rest, managed)
	if err != nil {
		return err
	}
	if err := setUp(ctx, manager, &cfg); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("informers", synced(manager, manager.GetCache())); err != nil {
		return err
	}
	if err := manager.Add(&follower{given: given, rest: rest, scheme: scheme, manager: manager}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// release is what differs between the releases of Kueue that this is built with: release.go, release_0_18.go.
type release struct {
	quotas      []quotas.Option
	queues      []queues.Option
	scheduler   []scheduler.Option
	controllers core.SetupControllersOpts
}

// setUp adds to the manager what the published program does, for the settings that it may have.
func setUp(ctx context.Context, manager ctrl.Manager, cfg *configapi.Configuration) error {
	if err := setUpIndexes(ctx, manager, cfg); err != nil {
		return err
	}
	localQueues := metrics.NewLocalQueueMetricsConfig(cfg.Metrics.LocalQueueMetrics)
	preempted := expectations.New()
	own := newRelease(preempted)
	again := queues.NewRequeuer()
	if err := manager.Add(again); err != nil {
		return err
	}
	quotaOptions := append(own.quotas,
		quotas.WithPodsReadyTracking(oneAfterTheOther(cfg)),
		quotas.WithLocalQueueMetrics(localQueues),
		quotas.WithResourceMetrics(cfg.Metrics.EnableClusterQueueResources),
	)
	queueOptions := append(own.queues,
		queues.WithLocalQueueMetrics(localQueues),
		queues.WithResourceMetrics(cfg.Metrics.EnableClusterQueueResources),
		queues.WithPreemptionExpectations(preempted),
	)
	if cfg.FairSharing != nil {
		quotaOptions = append(quotaOptions, quotas.WithFairSharing(fairsharing.Enabled(cfg.FairSharing)))
	}
	if cfg.AdmissionFairSharing != nil {
		quotaOptions = append(quotaOptions, quotas.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
		queueOptions = append(queueOptions, queues.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
	}
	quota := quotas.New(manager.GetClient(), quotaOptions...)
	queue := queues.NewManager(manager.GetClient(), quota, again, queueOptions...)
	version, err := serverVersion(manager)
	if err != nil {
		return err
	}
	if name, err := core.SetupControllers(manager, queue, quota, cfg, own.controllers); err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	if features.Enabled(features.TopologyAwareScheduling) {
		if name, err := tas.SetupControllers(manager, queue, quota, cfg, nil); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}
	namespaces, err := metav1.LabelSelectorAsSelector(cfg.ManagedJobsNamespaceSelector)
	if err != nil {
		return err
	}
	if err := setUpMultiKueue(manager, cfg); err != nil {
		return err
	}
	options := append(kindOptions,
		jobframework.WithManageJobsWithoutQueueName(cfg.ManageJobsWithoutQueueName),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithKubeServerVersion(version),
		jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithLabelKeysToCopy(labelKeys(cfg.Integrations.LabelKeysToCopy)),
		jobframework.WithCache(quota),
		jobframework.WithQueues(queue),
		jobframework.WithObjectRetentionPolicies(cfg.ObjectRetentionPolicies),
		jobframework.WithManagedJobsNamespaceSelector(namespaces),
	)
	if err := setUpKinds(ctx, manager, ctrl.Log, options...); err != nil {
		return err
	}
	if name, err := webhooks.Setup(manager, nil); err != nil {
		return fmt.Errorf("webhook %s: %w", name, err)
	}
	go queue.CleanUpOnContext(ctx)
	go quota.CleanUpOnContext(ctx)
	schedulerOptions := append(own.scheduler,
		scheduler.WithFairSharing(cfg.FairSharing),
		scheduler.WithAdmissionFairSharing(cfg.AdmissionFairSharing),
		scheduler.WithQuotaCheckStrategy(configapi.QuotaCheckBlockUndeclared),
		scheduler.WithPreemptionExpectations(preempted),
	)
	events := manager.GetEventRecorder(constants.AdmissionName)
	return manager.Add(scheduler.New(queue, quota, manager.GetClient(), events, schedulerOptions...))
}

// oneAfterTheOther tells whether nothing is admitted before the pods of all that was admitted are ready.
func oneAfterTheOther(cfg *configapi.Configuration) bool {
	waits := cfg.WaitForPodsReady
	return waitforpodsready.Enabled(waits) && waits.BlockAdmission != nil && *waits.BlockAdmission
}

func setUpIndexes(ctx context.Context, manager ctrl.Manager, cfg *configapi.Configuration) error {
	if err := indexer.Setup(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if features.Enabled(features.TopologyAwareScheduling) {
		if err := tasindexer.SetupIndexes(ctx, manager.GetFieldIndexer()); err != nil {
			return err
		}
	}
	if err := setUpMultiKueueIndexes(ctx, manager, cfg); err != nil {
		return err
	}
	options := append(kindOptions, jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks))
	return setUpKindIndexes(ctx, manager.GetFieldIndexer(), options...)
}

func serverVersion(manager ctrl.Manager) (*kubeversion.ServerVersionFetcher, error) {
	asked, err := discovery.NewDiscoveryClientForConfig(manager.GetConfig())
	if err != nil {
		return nil, err
	}
	fetcher := kubeversion.NewServerVersionFetcher(asked)
	if err := manager.Add(fetcher); err != nil {
		return nil, err
	}
	return fetcher, fetcher.FetchServerVersion()
}

func main() {
	o := parse()
	// Kueue tells each step of each workload at the info level; under load that is a good part of its CPU time.
	ctrl.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel), zap.RawZapOpts(zaplog.AddCaller())))
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		os.Exit(1)
	}
}
