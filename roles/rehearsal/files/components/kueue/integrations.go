//go:build !kueue_0_20

package main

import (
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs"
)

// What concerns all kinds of jobs: functions of packages before 0.20.
var (
	forEachKind        = jobframework.ForEachIntegration
	validate           = config.Validate
	setUpKindIndexes   = jobframework.SetupIndexes
	setUpKinds         = jobframework.SetupControllers
	multiKueueAdapters = jobframework.GetMultiKueueAdapters
	kindOptions        []jobframework.Option
)
