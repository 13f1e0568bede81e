//go:build kueue_0_18

package main

import (
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	quotas "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/expectations"
)

// newRelease returns what only some releases of Kueue have: 0.18 formats resources without options.
func newRelease(preempted *expectations.Store) release {
	return release{
		quotas: []quotas.Option{}, queues: []queues.Option{}, scheduler: []scheduler.Option{},
		controllers: core.SetupControllersOpts{PreemptionExpectations: preempted},
	}
}

// labelKeys returns the names of labels as jobframework takes them.
func labelKeys(names []string) []string { return names }
