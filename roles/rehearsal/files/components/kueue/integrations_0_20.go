//go:build kueue_0_20

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs"
)

var kinds = jobs.NewIntegrationManager()

// What concerns all kinds of jobs: methods of a manager of integrations from 0.20 on.
var (
	forEachKind        = kinds.ForEachIntegration
	setUpKindIndexes   = kinds.SetupIndexes
	setUpKinds         = kinds.SetupControllers
	multiKueueAdapters = kinds.GetMultiKueueAdapters
	kindOptions        = []jobframework.Option{jobframework.WithIntegrationManager(kinds)}
)

func validate(cfg *configapi.Configuration, scheme *runtime.Scheme) field.ErrorList {
	return config.Validate(cfg, scheme, kinds)
}
