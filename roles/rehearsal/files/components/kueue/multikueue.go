package main

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/workloaddispatcher"
	"sigs.k8s.io/kueue/pkg/features"
)

// setUpMultiKueueIndexes adds the indexes that MultiKueue searches, if it is on.
func setUpMultiKueueIndexes(ctx context.Context, manager ctrl.Manager, cfg *configapi.Configuration) error {
	if !features.Enabled(features.MultiKueue) {
		return nil
	}
	return multikueue.SetupIndexer(ctx, manager.GetFieldIndexer(), *cfg.Namespace)
}

// setUpMultiKueue adds the controllers of a manager cluster, which dispatch workloads to worker clusters, if it is on.
func setUpMultiKueue(manager ctrl.Manager, cfg *configapi.Configuration) error {
	if !features.Enabled(features.MultiKueue) {
		return nil
	}
	adapters, err := multiKueueAdapters(sets.New(cfg.Integrations.Frameworks...))
	if err != nil {
		return err
	}
	// A worker without one of these kinds would count as lost. Workers have the same kinds as the manager.
	maps.DeleteFunc(adapters, func(_ string, adapter jobframework.MultiKueueAdapter) bool {
		kind := adapter.GVK()
		_, err := manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return meta.IsNoMatchError(err)
	})
	if err := multikueue.SetupControllers(manager, *cfg.Namespace,
		multikueue.WithGCInterval(cfg.MultiKueue.GCInterval.Duration),
		multikueue.WithOrigin(*cfg.MultiKueue.Origin),
		multikueue.WithWorkerLostTimeout(cfg.MultiKueue.WorkerLostTimeout.Duration),
		multikueue.WithAdapters(adapters),
		multikueue.WithDispatcherName(*cfg.MultiKueue.DispatcherName),
	); err != nil {
		return fmt.Errorf("MultiKueue: %w", err)
	}
	if name, err := workloaddispatcher.SetupControllers(manager, cfg, nil); err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	return nil
}
