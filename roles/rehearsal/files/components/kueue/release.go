//go:build !kueue_0_18

package main

import (
	"k8s.io/apimachinery/pkg/util/sets"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	quotas "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/expectations"
)

// newRelease returns what only some releases of Kueue have: from 0.19 on, all parts share a formatter of resources.
func newRelease(preempted *expectations.Store) release {
	format := resources.NewResourceFormatter()
	return release{
		quotas:      []quotas.Option{quotas.WithResourceFormatter(format)},
		queues:      []queues.Option{queues.WithResourceFormatter(format)},
		scheduler:   []scheduler.Option{scheduler.WithResourceFormatter(format)},
		controllers: core.SetupControllersOpts{PreemptionExpectations: preempted, ResourceFormatter: format},
	}
}

// labelKeys returns the names of labels as jobframework takes them.
func labelKeys(names []string) sets.Set[string] { return sets.New(names...) }
