package main

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// What a test asks of a played resource, as annotations of the resource:
//
//	perfscale.seatrial/ready-seconds: "5"       it is not ready before
//	perfscale.seatrial/outcome: failed          it never gets ready
//	perfscale.seatrial/failed-component: kserve this part of it never gets ready
const (
	askReady   = "perfscale.seatrial/ready-seconds"
	askOutcome = "perfscale.seatrial/outcome"
	askPart    = "perfscale.seatrial/failed-component"
)

const playedMessage = "played by olm play, no operator ran"

var (
	csvs        = schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "clusterserviceversions"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	daemonSets  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	nodes       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	eventKind   = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// player plays one kind. It returns true when nothing is left to do until something changes.
type player func(ctx context.Context, c cluster, operator unstructured.Unstructured, one unstructured.Unstructured) bool

// runPlayer does what operators would do with their resources, as long as their ClusterServiceVersion has succeeded: as
// on a cluster, nothing happens to a resource whose operator is not there.
func runPlayer(ctx context.Context, o options, ready *readiness, log *logrus.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	c := cluster{client, log}
	for kind, play := range players {
		go follow(ctx, c.Resource(kind), log, func(found []unstructured.Unstructured) time.Duration {
			if len(found) == 0 {
				return 0
			}
			operator := operatorOf(ctx, c, kind)
			settled := operator != nil
			for _, one := range found {
				if operator != nil && one.GetDeletionTimestamp() == nil {
					settled = play(ctx, c, *operator, one) && settled
				}
			}
			if settled {
				return 0
			}
			return time.Second
		})
	}
	go follow(ctx, c.Resource(csvs), log, func([]unstructured.Unstructured) time.Duration {
		for _, one := range []product{served2, served3} {
			one.initialise(ctx, c)
		}
		return certify(ctx, c)
	})
	if o.webhook != "" {
		go func() { log.Fatal(serveWebhook(ctx, c, o)) }()
	}
	ready.Store(true)
	<-ctx.Done()
	return nil
}

// operatorOf returns the ClusterServiceVersion that provides a kind in this version and has succeeded.
func operatorOf(ctx context.Context, c cluster, kind schema.GroupVersionResource) *unstructured.Unstructured {
	list, err := c.Resource(csvs).List(ctx, metav1.ListOptions{LabelSelector: "!olm.copiedFrom"})
	if err != nil {
		return nil
	}
	for _, csv := range list.Items {
		phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase")
		owned, _, _ := unstructured.NestedSlice(csv.Object, "spec", "customresourcedefinitions", "owned")
		for _, one := range owned {
			entry, ok := one.(object)
			if ok && entry["name"] == kind.Resource+"."+kind.Group && entry["version"] == kind.Version && phase == "Succeeded" {
				return &csv
			}
		}
	}
	return nil
}

// early tells whether a resource asked not to be ready yet, or never.
func early(one unstructured.Unstructured) bool {
	asked := one.GetAnnotations()
	if asked[askOutcome] == "failed" {
		return true
	}
	span, err := time.ParseDuration(asked[askReady] + "s")
	return err == nil && time.Since(one.GetCreationTimestamp().Time) < span
}

// owned returns the metadata of an object that goes when its owner goes.
func owned(by unstructured.Unstructured, namespace, name string, labels object) object {
	all := object{simulated: "true"}
	for key, value := range labels {
		all[key] = value
	}
	return object{
		"name": name, "namespace": namespace, "labels": all,
		"ownerReferences": []object{{
			"apiVersion": by.GetAPIVersion(), "kind": by.GetKind(), "name": by.GetName(), "uid": by.GetUID(),
			"controller": true, "blockOwnerDeletion": true,
		}},
	}
}

// pods returns selector and template of what runs pods.
func pods(name string, spec object) object {
	labels := object{"app": name, simulated: "true"}
	spec["containers"] = []object{{"name": "main", "image": "registry.invalid/played/" + name + ":latest"}}
	return object{
		"selector": object{"matchLabels": object{"app": name}},
		"template": object{"metadata": object{"labels": labels}, "spec": spec},
	}
}

// deploy makes a Deployment; it tells whether it is available.
func deploy(ctx context.Context, c cluster, by unstructured.Unstructured, namespace, name string, labels object) bool {
	c.apply(ctx, deployments, object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": owned(by, namespace, name, labels), "spec": pods(name, object{}),
	})
	one, err := c.in(deployments, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	available, _, _ := unstructured.NestedInt64(one.Object, "status", "availableReplicas")
	return available > 0
}

// daemon makes a DaemonSet; it tells whether its pods are available on all its nodes.
func daemon(ctx context.Context, c cluster, by unstructured.Unstructured, namespace, name string, selector object, tolerations []any) bool {
	spec := object{"tolerations": tolerations}
	if selector != nil {
		spec["nodeSelector"] = selector
	}
	c.apply(ctx, daemonSets, object{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": owned(by, namespace, name, nil), "spec": pods(name, spec),
	})
	one, err := c.in(daemonSets, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(one.Object, "status", "observedGeneration")
	wanted, _, _ := unstructured.NestedInt64(one.Object, "status", "desiredNumberScheduled")
	available, _, _ := unstructured.NestedInt64(one.Object, "status", "numberAvailable")
	return seen == one.GetGeneration() && wanted == available
}

// condition keeps the time of a condition that has not changed, so that nothing is written for nothing.
func condition(one unstructured.Unstructured, kind string, status bool, reason, message string) object {
	text := map[bool]string{true: "True", false: "False"}[status]
	at := metav1.Now().UTC().Format(time.RFC3339)
	before, _, _ := unstructured.NestedSlice(one.Object, "status", "conditions")
	for _, entry := range before {
		if old, ok := entry.(object); ok && old["type"] == kind && old["status"] == text {
			at, _ = old["lastTransitionTime"].(string)
		}
	}
	return object{"type": kind, "status": text, "reason": reason, "message": message, "lastTransitionTime": at}
}

// announce writes an event that says that a resource was played.
func announce(ctx context.Context, c cluster, one unstructured.Unstructured, what string) {
	namespace := one.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	event := &unstructured.Unstructured{Object: normal(object{
		"apiVersion": "v1", "kind": "Event",
		"metadata": object{"generateName": one.GetName() + ".", "namespace": namespace, "labels": object{simulated: "true"}},
		"type":     "Normal", "reason": "Played", "message": what + ": " + playedMessage,
		"source": object{"component": fieldManager}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
		"involvedObject": object{
			"apiVersion": one.GetAPIVersion(), "kind": one.GetKind(), "name": one.GetName(),
			"namespace": one.GetNamespace(), "uid": one.GetUID(),
		},
	})}
	if _, err := c.in(eventKind, namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		c.log.WithError(err).Warn("can't write an event")
	}
}

// report writes a status when it differs from what stands there, and an event with it.
func report(ctx context.Context, c cluster, kind schema.GroupVersionResource, one unstructured.Unstructured, status object, what string) {
	old, _, _ := unstructured.NestedMap(one.Object, "status")
	wanted := normal(status)
	for key, value := range wanted {
		if !same(old[key], value) {
			c.patch(ctx, kind, one.GetNamespace(), one.GetName(), object{"status": status}, "status")
			announce(ctx, c, one, what)
			return
		}
	}
}
