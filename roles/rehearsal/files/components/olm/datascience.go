package main

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served2 and served3 are what the operators of OpenShift AI 2 and 3 reconcile.
var (
	served2 = product{
		initialisations: schema.GroupVersionResource{
			Group: "dscinitialization.opendatahub.io", Version: "v1", Resource: "dscinitializations"},
		dataScience: schema.GroupVersionResource{
			Group: "datasciencecluster.opendatahub.io", Version: "v1", Resource: "datascienceclusters"},
		components: map[string][]string{
			"codeflare":            {"codeflare-operator-manager"},
			"datasciencepipelines": {"data-science-pipelines-operator-controller-manager"},
			"modelmeshserving":     {"modelmesh-controller"},
		},
	}
	served3 = product{
		initialisations: schema.GroupVersionResource{
			Group: "dscinitialization.opendatahub.io", Version: "v2", Resource: "dscinitializations"},
		dataScience: schema.GroupVersionResource{
			Group: "datasciencecluster.opendatahub.io", Version: "v2", Resource: "datascienceclusters"},
		components: map[string][]string{
			"aigateway":            {"ai-gateway-operator-controller-manager"},
			"aipipelines":          {"data-science-pipelines-operator-controller-manager"},
			"mcplifecycleoperator": {"mcp-lifecycle-operator-controller-manager"},
			"mlflowoperator":       {"mlflow-operator-controller-manager"},
			"ogx":                  {"ogx-operator-controller-manager"},
			"sparkoperator":        {"spark-operator-controller"},
			"trainer":              {"kubeflow-trainer-controller-manager"},
		},
	}
)

// The deployments of the components that both have.
var common = map[string][]string{
	"dashboard":          {"rhods-dashboard"},
	"feastoperator":      {"feast-operator-controller-manager"},
	"kserve":             {"kserve-controller-manager", "odh-model-controller"},
	"kueue":              {"kueue-controller-manager"},
	"llamastackoperator": {"llama-stack-k8s-operator-controller-manager"},
	"modelregistry":      {"model-registry-operator-controller-manager"},
	"ray":                {"kuberay-operator"},
	"trainingoperator":   {"kubeflow-training-operator"},
	"trustyai":           {"trustyai-service-operator-controller-manager"},
	"workbenches":        {"notebook-controller-deployment", "odh-notebook-controller-manager"},
}

// What the operator creates beside its two kinds.
var (
	auths      = schema.GroupVersionResource{Group: "services.platform.opendatahub.io", Version: "v1alpha1", Resource: "auths"}
	dashboards = schema.GroupVersionResource{
		Group: "components.platform.opendatahub.io", Version: "v1alpha1", Resource: "dashboards"}
)

// product is one generation of OpenShift AI.
type product struct {
	initialisations, dataScience schema.GroupVersionResource
	components                   map[string][]string
}

// parts returns the deployments of each component.
func (p product) parts() map[string][]string {
	found := map[string][]string{}
	for _, some := range []map[string][]string{common, p.components} {
		for name, deployments := range some {
			found[name] = deployments
		}
	}
	return found
}

// apiVersion of the kinds of a group.
func apiVersion(kind schema.GroupVersionResource) string { return kind.Group + "/" + kind.Version }

// platform tells the two products apart that share these kinds.
func platform(operator unstructured.Unstructured) (applications, monitoring string) {
	if strings.HasPrefix(operator.GetName(), "opendatahub") {
		return "opendatahub", "opendatahub"
	}
	return "redhat-ods-applications", "redhat-ods-monitoring"
}

// initialise makes the DSCInitialization that the operator itself makes once it runs, unless it was told not to; the
// managed product also makes a DataScienceCluster.
func (p product) initialise(ctx context.Context, c cluster) {
	operator := operatorOf(ctx, c, p.initialisations)
	if operator == nil || disabled(*operator) || operator.GetAnnotations()["perfscale.seatrial/initialised"] != "" {
		return
	}
	list, err := c.Resource(p.initialisations).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	// As its owner would: once, and not again after somebody deleted it, also if it was there before.
	c.patch(ctx, csvs, operator.GetNamespace(), operator.GetName(),
		object{"metadata": object{"annotations": object{"perfscale.seatrial/initialised": "true"}}})
	if len(list.Items) > 0 {
		return
	}
	applications, monitoring := platform(*operator)
	c.apply(ctx, p.initialisations, object{
		"apiVersion": apiVersion(p.initialisations), "kind": "DSCInitialization",
		"metadata": object{"name": "default-dsci", "labels": object{simulated: "true"}},
		"spec": object{
			"applicationsNamespace": applications,
			"monitoring":            object{"managementState": "Removed", "namespace": monitoring},
		},
	})
	if _, err := c.in(catalogSources, operator.GetNamespace()).Get(ctx, "addon-managed-odh-catalog", metav1.GetOptions{}); err == nil {
		c.apply(ctx, p.dataScience, object{
			"apiVersion": apiVersion(p.dataScience), "kind": "DataScienceCluster",
			"metadata": object{"name": "default-dsc", "labels": object{simulated: "true"}},
			"spec":     object{"components": object{"dashboard": object{"managementState": "Managed"}}},
		})
	}
}

// disabled tells whether the Subscription set DISABLE_DSC_CONFIG, which OLM puts into the operator's deployments.
func disabled(operator unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(operator.Object, "spec", "install", "spec", "deployments")
	for _, one := range list {
		entry, _ := one.(object)
		containers, _, _ := unstructured.NestedSlice(entry, "spec", "template", "spec", "containers")
		for _, container := range containers {
			values, _ := container.(object)
			environment, _, _ := unstructured.NestedSlice(values, "env")
			for _, variable := range environment {
				if named, ok := variable.(object); ok && named["name"] == "DISABLE_DSC_CONFIG" {
					return named["value"] != "false"
				}
			}
		}
	}
	return false
}

// space makes a namespace that the operator makes, if it is missing.
func space(ctx context.Context, c cluster, name string) {
	if name == "" {
		return
	}
	if _, err := c.Resource(namespaces).Get(ctx, name, metav1.GetOptions{}); err == nil {
		return
	}
	c.apply(ctx, namespaces, object{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": name, "labels": object{simulated: "true", "opendatahub.io/generated-namespace": "true"}},
	})
}

// playInitialisation makes the namespaces.
func (p product) playInitialisation(ctx context.Context, c cluster, _, one unstructured.Unstructured) bool {
	applications, _, _ := unstructured.NestedString(one.Object, "spec", "applicationsNamespace")
	monitoring, _, _ := unstructured.NestedString(one.Object, "spec", "monitoring", "namespace")
	space(ctx, c, applications)
	if state, _, _ := unstructured.NestedString(one.Object, "spec", "monitoring", "managementState"); state == "Managed" {
		space(ctx, c, monitoring)
	}
	// As on a cluster, nobody owns it.
	c.apply(ctx, auths, object{"apiVersion": apiVersion(auths), "kind": "Auth",
		"metadata": object{"name": "auth", "labels": object{simulated: "true"}}})
	ready := !early(one)
	phase := map[bool]string{true: "Ready", false: "Progressing"}[ready]
	report(ctx, c, p.initialisations, one, object{"phase": phase, "conditions": []object{
		condition(one, "ReconcileComplete", ready, "ReconcileCompleted", playedMessage),
		condition(one, "Available", ready, "ReconcileCompleted", playedMessage),
	}}, "phase "+phase)
	return ready
}

// playDashboard makes what the operator makes for the dashboard beside its deployment: a resource that the
// DataScienceCluster owns, and a definition with an object in its namespace that nobody owns and that stay.
func playDashboard(ctx context.Context, c cluster, one unstructured.Unstructured, namespace string) {
	metadata := owned(one, "", "default-dashboard", nil)
	delete(metadata, "namespace")
	c.apply(ctx, dashboards, object{"apiVersion": apiVersion(dashboards), "kind": "Dashboard", "metadata": metadata})
	configs := definition{Group: "opendatahub.io", Version: "v1alpha", Kind: "OdhDashboardConfig", Plural: "odhdashboardconfigs",
		Scope: "Namespaced"}
	standIn := configs.standIn()
	standIn["metadata"].(object)["labels"] = object{simulated: "true", "platform.opendatahub.io/part-of": "platform"}
	c.applyAs(ctx, "platform.opendatahub.io", definitionKind, standIn)
	if _, err := c.Resource(definitionKind).Get(ctx, configs.name(), metav1.GetOptions{}); err != nil {
		return
	}
	kind := schema.GroupVersionResource{Group: configs.Group, Version: configs.Version, Resource: configs.Plural}
	c.applyAs(ctx, "dashboard.opendatahub.io", kind, object{"apiVersion": apiVersion(kind), "kind": configs.Kind,
		"metadata": object{"name": "odh-dashboard-config", "namespace": namespace, "labels": object{simulated: "true"}}})
}

// playDataScience deploys the managed components and removes the others.
func (p product) playDataScience(ctx context.Context, c cluster, operator, one unstructured.Unstructured) bool {
	list, err := c.Resource(p.initialisations).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	if len(list.Items) == 0 {
		report(ctx, c, p.dataScience, one, object{"phase": "Not Ready", "conditions": []object{
			condition(one, "Ready", false, "DSCInitializationNotFound", "there is no DSCInitialization"),
		}}, "no DSCInitialization")
		return false
	}
	namespace, _, _ := unstructured.NestedString(list.Items[0].Object, "spec", "applicationsNamespace")
	space(ctx, c, namespace)
	wanted, _, _ := unstructured.NestedMap(one.Object, "spec", "components")
	conditions, missing, installed, states := []object{}, []string{}, object{}, object{}
	parts := p.parts()
	for _, name := range sorted(names(parts)) {
		state, _, _ := unstructured.NestedString(wanted, name, "managementState")
		if state == "" {
			state = "Removed"
		}
		kind := strings.ToUpper(name[:1]) + name[1:] + "Ready"
		states[name] = object{"managementState": state}
		if state != "Managed" {
			for _, gone := range parts[name] {
				_ = c.in(deployments, namespace).Delete(ctx, gone, metav1.DeleteOptions{})
			}
			if state == "Removed" {
				conditions = append(conditions, condition(one, kind, false, "Removed", "component is not managed"))
				installed[name] = false
				continue
			}
		}
		if name == "dashboard" {
			playDashboard(ctx, c, one, namespace)
		}
		reason, message := "Ready", playedMessage
		if lacking := p.lacks(ctx, c, name, state); lacking != "" {
			missing = append(missing, name)
			conditions = append(conditions, condition(one, kind, false, "DependencyMissing", lacking))
			installed[name] = false
			continue
		}
		available := true
		for _, part := range parts[name] {
			if state == "Managed" {
				labels := object{"platform.opendatahub.io/part-of": name, "app.opendatahub.io/" + name: "true"}
				available = deploy(ctx, c, one, namespace, part, labels) && available
			}
		}
		if one.GetAnnotations()[askPart] == name {
			available, message = false, "failed as asked by annotation "+askPart
		}
		if !available {
			reason = "DeploymentsNotReady"
			missing = append(missing, name)
		}
		conditions = append(conditions, condition(one, kind, available, reason, message))
		installed[name] = available
	}
	ready := len(missing) == 0 && !early(one)
	phase, message := "Ready", playedMessage
	if !ready {
		phase, message = "Not Ready", "some components are not ready: "+strings.Join(missing, ", ")
	}
	head := []object{
		condition(one, "Ready", ready, phase, message),
		condition(one, "ProvisioningSucceeded", true, "Ready", playedMessage),
		condition(one, "ComponentsReady", len(missing) == 0, phase, message),
	}
	version, _, _ := unstructured.NestedString(operator.Object, "spec", "version")
	status := object{
		"phase": phase, "conditions": append(head, conditions...),
		"observedGeneration": one.GetGeneration(),
		"release":            object{"name": operator.GetName(), "version": version},
	}
	if p.dataScience.Version == "v1" {
		status["installedComponents"] = installed
	} else {
		status["components"] = states
	}
	report(ctx, c, p.dataScience, one, status, "phase "+phase)
	return ready
}

// lacks returns what a component needs of other operators and does not find, "" if nothing.
func (p product) lacks(ctx context.Context, c cluster, name, state string) string {
	switch {
	case name == "trainer" && !exists(ctx, c, jobSetOperators, "cluster"):
		return "there is no JobSetOperator named cluster: install the JobSet operator and create it"
	case name == "trainer" && !exists(ctx, c, definitionKind, "jobsets.jobset.x-k8s.io"):
		return "the definition of JobSet does not exist: see the status of the JobSetOperator"
	case name == "kueue" && state == "Unmanaged" && operatorOf(ctx, c, kueues) == nil:
		return "the Red Hat build of Kueue is not installed: install it, or set kueue to Removed"
	}
	return ""
}

// exists tells whether there is an object without a namespace.
func exists(ctx context.Context, c cluster, kind schema.GroupVersionResource, name string) bool {
	_, err := c.Resource(kind).Get(ctx, name, metav1.GetOptions{})
	return err == nil
}

func names(of map[string][]string) []string {
	found := []string{}
	for name := range of {
		found = append(found, name)
	}
	return found
}
