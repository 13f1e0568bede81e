package main

import (
	"context"
	"encoding/json"
	"reflect"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var (
	clusterPolicies = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"}
	nodeFeatures    = schema.GroupVersionResource{Group: "nfd.openshift.io", Version: "v1", Resource: "nodefeaturediscoveries"}
	controlPlanes   = schema.GroupVersionResource{Group: "maistra.io", Version: "v2", Resource: "servicemeshcontrolplanes"}
	knativeServings = schema.GroupVersionResource{Group: "operator.knative.dev", Version: "v1beta1", Resource: "knativeservings"}
	jobSetOperators = schema.GroupVersionResource{
		Group: "operator.openshift.io", Version: "v1", Resource: "jobsetoperators"}
	leaderWorkerSets = schema.GroupVersionResource{
		Group: "operator.openshift.io", Version: "v1", Resource: "leaderworkersetoperators"}
	kueues         = schema.GroupVersionResource{Group: "kueue.openshift.io", Version: "v1", Resource: "kueues"}
	kuadrants      = schema.GroupVersionResource{Group: "kuadrant.io", Version: "v1beta1", Resource: "kuadrants"}
	definitionKind = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	authorinos = schema.GroupVersionResource{Group: "operator.authorino.kuadrant.io", Version: "v1beta1", Resource: "authorinos"}
)

var players = map[schema.GroupVersionResource]player{
	clusterPolicies:         playClusterPolicy,
	nodeFeatures:            playNodeFeatures,
	controlPlanes:           served(controlPlanes, "istiod-{name}", "istio-ingressgateway", "istio-egressgateway"),
	knativeServings:         served(knativeServings, "activator", "autoscaler", "controller", "webhook"),
	authorinos:              served(authorinos, "{name}"),
	served2.initialisations: served2.playInitialisation,
	served2.dataScience:     served2.playDataScience,
	served3.initialisations: served3.playInitialisation,
	served3.dataScience:     served3.playDataScience,
	jobSetOperators: brings(certified(jobSetOperators, "jobset", served(jobSetOperators, "@jobset-controller-manager")),
		definition{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet", Plural: "jobsets", Scope: "Namespaced"}),
	leaderWorkerSets: brings(certified(leaderWorkerSets, "lws", served(leaderWorkerSets, "@lws-controller-manager")),
		definition{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet", Plural: "leaderworkersets", Scope: "Namespaced"}),
	kueues: brings(certified(kueues, "kueue", served(kueues, "@kueue-controller-manager")),
		queueing("ClusterQueue", "Cluster"), queueing("ResourceFlavor", "Cluster"),
		queueing("LocalQueue", "Namespaced"), queueing("Workload", "Namespaced")),
	certManagers: playCertManager,
	certificates: playCertificate,
	kuadrants:    served(kuadrants, "limitador-limitador"),
}

// queueing returns a definition of Kueue's.
func queueing(kind, scope string) definition {
	plural := strings.ToLower(kind) + "s"
	return definition{Group: "kueue.x-k8s.io", Version: "v1beta1", Kind: kind, Plural: plural, Scope: scope}
}

func same(a, b any) bool {
	left, _ := json.Marshal(a)
	right, _ := json.Marshal(b)
	return reflect.DeepEqual(left, right)
}

// brings plays a resource whose operator defines kinds. As on a cluster, nobody owns the definitions. Those that exist,
// such as those of a component of the rehearsal cluster, stay as they are.
func brings(play player, kinds ...definition) player {
	return func(ctx context.Context, c cluster, operator, one unstructured.Unstructured) bool {
		for _, kind := range kinds {
			if !exists(ctx, c, definitionKind, kind.name()) {
				c.apply(ctx, definitionKind, kind.standIn())
			}
		}
		return play(ctx, c, operator, one)
	}
}

// served plays a resource that is ready when the deployments in its namespace are available; those with an "@" are in the
// namespace of its operator.
func served(kind schema.GroupVersionResource, names ...string) player {
	return func(ctx context.Context, c cluster, operator, one unstructured.Unstructured) bool {
		missing := []string{}
		for _, name := range names {
			name, namespace := strings.ReplaceAll(name, "{name}", one.GetName()), one.GetNamespace()
			if bare, beside := strings.CutPrefix(name, "@"); beside {
				name, namespace = bare, operator.GetNamespace()
			}
			if !deploy(ctx, c, one, namespace, name, nil) {
				missing = append(missing, name)
			}
		}
		ready := len(missing) == 0 && !early(one)
		message := playedMessage
		if len(missing) > 0 {
			message = "waiting for deployments " + strings.Join(missing, ", ")
		}
		reason := map[bool]string{true: "ComponentsReady", false: "ComponentsNotReady"}[ready]
		report(ctx, c, kind, one, object{"conditions": []object{
			condition(one, "Reconciled", true, "InstallSuccessful", playedMessage),
			condition(one, "Ready", ready, reason, message),
			condition(one, "Available", ready, reason, message),
		}}, reason)
		return ready
	}
}

// Labels that tell of a GPU on a PCI bus.
var gpuFeatures = []string{"pci-10de", "pci-0302_10de"}

// playNodeFeatures labels nodes as the workers of Node Feature Discovery do.
func playNodeFeatures(ctx context.Context, c cluster, _, one unstructured.Unstructured) bool {
	ready := deploy(ctx, c, one, one.GetNamespace(), "nfd-master", nil)
	ready = daemon(ctx, c, one, one.GetNamespace(), "nfd-worker", nil, []any{object{"operator": "Exists"}}) && ready && !early(one)
	if ready {
		list, err := c.Resource(nodes).List(ctx, metav1.ListOptions{LabelSelector: simulated + "=true"})
		if err != nil {
			return false
		}
		for _, node := range list.Items {
			labels := object{"feature.node.kubernetes.io/system-os_release.ID": "rhel"}
			if gpus, _, _ := unstructured.NestedString(node.Object, "status", "capacity", "nvidia.com/gpu"); gpus != "" {
				for _, feature := range gpuFeatures {
					labels["feature.node.kubernetes.io/"+feature+".present"] = "true"
				}
			}
			for key, value := range labels {
				if node.GetLabels()[key] != value {
					c.patch(ctx, nodes, "", node.GetName(), object{"metadata": object{"labels": labels}})
					break
				}
			}
		}
	}
	reason := map[bool]string{true: "AllInstanceComponentsAreDeployedSuccessfully", false: "NodeFeatureDiscoveryWorkerDaemonSetNotReady"}[ready]
	report(ctx, c, nodeFeatures, one, object{"conditions": []object{
		condition(one, "Available", ready, reason, playedMessage),
		condition(one, "Progressing", !ready, reason, playedMessage),
		condition(one, "Degraded", false, "NotDegraded", playedMessage),
	}}, reason)
	return ready
}

// What the GPU operator runs on every node with a GPU.
var gpuDaemons = []string{
	"nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset", "nvidia-device-plugin-daemonset",
	"gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-operator-validator",
}

// playClusterPolicy runs the DaemonSets of the GPU operator. Nodes of a rehearsal have their GPUs before.
func playClusterPolicy(ctx context.Context, c cluster, operator, one unstructured.Unstructured) bool {
	namespace := operator.GetNamespace()
	given, _, _ := unstructured.NestedSlice(one.Object, "spec", "daemonsets", "tolerations")
	tolerations := append([]any{object{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}}, given...)
	missing := []string{}
	for _, name := range gpuDaemons {
		if !daemon(ctx, c, one, namespace, name, object{"nvidia.com/gpu.present": "true"}, tolerations) {
			missing = append(missing, name)
		}
	}
	ready := len(missing) == 0 && !early(one)
	if ready {
		shareGPUs(ctx, c, namespace, one)
	}
	state := map[bool]string{true: "ready", false: "notReady"}[ready]
	message := playedMessage
	if len(missing) > 0 {
		message = "waiting for daemonsets " + strings.Join(missing, ", ")
	}
	reason := map[bool]string{true: "Reconciled", false: "OperandNotReady"}[ready]
	report(ctx, c, clusterPolicies, one, object{"state": state, "namespace": namespace, "conditions": []object{
		condition(one, "Ready", ready, reason, message),
		condition(one, "Error", !ready, reason, message),
	}}, "state "+state)
	return ready
}

// shareGPUs shows each GPU as often as the time-slicing configuration says; once, without one.
func shareGPUs(ctx context.Context, c cluster, namespace string, policy unstructured.Unstructured) {
	replicas := timeSlices(ctx, c, namespace, policy)
	list, err := c.Resource(nodes).List(ctx, metav1.ListOptions{LabelSelector: simulated + "=true,nvidia.com/gpu.present=true"})
	if err != nil {
		return
	}
	for _, node := range list.Items {
		text, _, _ := unstructured.NestedString(node.Object, "status", "capacity", "nvidia.com/gpu")
		shown, _, _ := unstructured.NestedString(node.Object, "status", "allocatable", "nvidia.com/gpu")
		gpus, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		if wanted := strconv.Itoa(gpus * replicas); shown != wanted {
			c.patch(ctx, nodes, "", node.GetName(), object{"status": object{"allocatable": object{"nvidia.com/gpu": wanted}}}, "status")
		}
		if wanted := strconv.Itoa(replicas); node.GetLabels()["nvidia.com/gpu.replicas"] != wanted {
			c.patch(ctx, nodes, "", node.GetName(), object{"metadata": object{"labels": object{"nvidia.com/gpu.replicas": wanted}}})
		}
	}
}

// timeSlices reads how often a GPU is shared from the device plugin's configuration.
func timeSlices(ctx context.Context, c cluster, namespace string, policy unstructured.Unstructured) int {
	name, _, _ := unstructured.NestedString(policy.Object, "spec", "devicePlugin", "config", "name")
	key, _, _ := unstructured.NestedString(policy.Object, "spec", "devicePlugin", "config", "default")
	if name == "" || key == "" {
		return 1
	}
	config, err := c.in(configMaps, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 1
	}
	text, _, _ := unstructured.NestedString(config.Object, "data", key)
	var plugin struct {
		Sharing struct {
			TimeSlicing struct {
				Resources []struct {
					Name     string `json:"name"`
					Replicas int    `json:"replicas"`
				} `json:"resources"`
			} `json:"timeSlicing"`
		} `json:"sharing"`
	}
	if err := yaml.Unmarshal([]byte(text), &plugin); err != nil {
		return 1
	}
	for _, one := range plugin.Sharing.TimeSlicing.Resources {
		if one.Name == "nvidia.com/gpu" && one.Replicas > 0 {
			return one.Replicas
		}
	}
	return 1
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}
