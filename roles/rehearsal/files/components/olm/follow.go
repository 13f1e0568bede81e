package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// fieldManager marks what is written here.
const fieldManager = "seatrial-player"

// pause between two looks at a kind that is not defined, or that could not be read.
const pause = 3 * time.Second

// follow calls act with all objects of a kind whenever one of them changes, and after the time that act asks for (0:
// only at changes). A kind that is not defined is waited for.
func follow(ctx context.Context, kind dynamic.ResourceInterface, log *logrus.Logger,
	act func([]unstructured.Unstructured) time.Duration) {
	for ctx.Err() == nil {
		list, err := kind.List(ctx, metav1.ListOptions{})
		if err != nil {
			sleep(ctx, pause)
			continue
		}
		again := act(list.Items)
		if again == 0 {
			again = 5 * time.Minute
		}
		limited, cancel := context.WithTimeout(ctx, again)
		watch, err := kind.Watch(limited, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			log.WithError(err).Warn("can't watch")
			sleep(ctx, pause)
		} else {
			select {
			case <-watch.ResultChan():
				// Changes come in groups: look once for all of them.
				sleep(limited, 100*time.Millisecond)
			case <-limited.Done():
			}
			watch.Stop()
		}
		cancel()
	}
}

func sleep(ctx context.Context, span time.Duration) {
	select {
	case <-time.After(span):
	case <-ctx.Done():
	}
}

// cluster is what players write to.
type cluster struct {
	dynamic.Interface
	log *logrus.Logger
}

// in returns the objects of a kind in a namespace ("" for kinds without, and for all namespaces).
func (c cluster) in(kind schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Resource(kind)
	}
	return c.Resource(kind).Namespace(namespace)
}

// apply makes an object as given, or changes it so (server-side apply).
func (c cluster) apply(ctx context.Context, kind schema.GroupVersionResource, wanted object) {
	c.applyAs(ctx, fieldManager, kind, wanted)
}

// applyAs does so in the name of a controller.
func (c cluster) applyAs(ctx context.Context, manager string, kind schema.GroupVersionResource, wanted object) {
	one := &unstructured.Unstructured{Object: normal(wanted)}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	if _, err := c.in(kind, one.GetNamespace()).Apply(ctx, one.GetName(), one, options); err != nil {
		c.log.WithError(err).Warnf("can't apply %s %s", one.GetKind(), one.GetName())
	}
}

// patch merges values into an object or one of its subresources.
func (c cluster) patch(ctx context.Context, kind schema.GroupVersionResource, namespace, name string, values object,
	subresource ...string) {
	text, err := json.Marshal(values)
	if err == nil {
		options := metav1.PatchOptions{FieldManager: fieldManager}
		_, err = c.in(kind, namespace).Patch(ctx, name, types.MergePatchType, text, options, subresource...)
	}
	if err != nil {
		c.log.WithError(err).Warnf("can't patch %s %s", kind.Resource, name)
	}
}

// normal rebuilds an object of plain maps and slices, which is what unstructured objects hold.
func normal(wanted object) object {
	text, _ := json.Marshal(wanted)
	var plain object
	_ = json.Unmarshal(text, &plain)
	return plain
}
