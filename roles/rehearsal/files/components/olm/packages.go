package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	registryclient "github.com/operator-framework/operator-registry/pkg/client"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	catalogSources   = schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "catalogsources"}
	operatorGroups   = schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1", Resource: "operatorgroups"}
	packageManifests = schema.GroupVersionResource{Group: "packages.operators.coreos.com", Version: "v1", Resource: "packagemanifests"}
)

// servePackages makes the OperatorGroup and CatalogSources that OpenShift has by default, and a PackageManifest for each package of every catalog that is ready.
// On a cluster these come from OLM's package server, an aggregated API that can't run out of the cluster.
func servePackages(ctx context.Context, config *rest.Config, o options, log *logrus.Logger) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	c := cluster{client, log}
	for _, one := range o.catalogs {
		c.apply(ctx, catalogSources, object{
			"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
			"metadata": object{"name": one[0], "namespace": o.namespace, "labels": object{simulated: "true"}},
			"spec": object{
				"sourceType": "grpc", "address": one[1], "displayName": one[0] + " (stand-in)", "publisher": "perfscale.seatrial",
			},
		})
	}
	c.apply(ctx, operatorGroups, object{
		"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
		"metadata": object{"name": "global-operators", "namespace": "openshift-operators", "labels": object{simulated: "true"}},
		"spec":     object{},
	})
	follow(ctx, client.Resource(catalogSources), log, func(found []unstructured.Unstructured) time.Duration {
		ready := map[string]bool{}
		for _, source := range found {
			state, _, _ := unstructured.NestedString(source.Object, "status", "connectionState", "lastObservedState")
			if state != "READY" {
				continue
			}
			ready[source.GetNamespace()+"/"+source.GetName()] = true
			address, _, _ := unstructured.NestedString(source.Object, "spec", "address")
			if address == "" {
				address = o.others
			}
			if err := publish(ctx, c, address, source); err != nil {
				log.WithError(err).Warnf("can't read catalog %s", source.GetName())
			}
		}
		withdraw(ctx, c, ready)
		return 0
	})
}

// publish writes the PackageManifests of one catalog.
func publish(ctx context.Context, c cluster, address string, source unstructured.Unstructured) error {
	registry, err := registryclient.NewClient(address)
	if err != nil {
		return err
	}
	defer registry.Close()
	bundles, err := registry.ListBundles(ctx)
	if err != nil {
		return err
	}
	packages := map[string][]*api.Bundle{}
	for bundle := bundles.Next(); bundle != nil; bundle = bundles.Next() {
		packages[bundle.PackageName] = append(packages[bundle.PackageName], bundle)
	}
	for name, versions := range packages {
		one, err := registry.GetPackage(ctx, name)
		if err != nil {
			return err
		}
		manifest, err := packageManifest(one, versions, source)
		if err != nil {
			return fmt.Errorf("package %s: %w", name, err)
		}
		c.apply(ctx, packageManifests, manifest)
	}
	return bundles.Error()
}

// packageManifest tells what a package server tells of a package.
func packageManifest(one *api.Package, versions []*api.Bundle, source unstructured.Unstructured) (object, error) {
	title, _, _ := unstructured.NestedString(source.Object, "spec", "displayName")
	sort.Slice(one.Channels, func(a, b int) bool { return one.Channels[a].Name < one.Channels[b].Name })
	var channels []object
	for _, channel := range one.Channels {
		entries := []object{}
		var described object
		for _, version := range versions {
			if version.ChannelName != channel.Name {
				continue
			}
			entries = append([]object{{"name": version.CsvName, "version": version.Version}}, entries...)
			if version.CsvName == channel.CsvName {
				var csv object
				if err := json.Unmarshal([]byte(version.CsvJson), &csv); err != nil {
					return nil, err
				}
				described = description(csv)
			}
		}
		channels = append(channels, object{
			"name": channel.Name, "currentCSV": channel.CsvName, "currentCSVDesc": described, "entries": entries,
		})
	}
	return object{
		"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest",
		"metadata": object{
			"name": one.Name, "namespace": source.GetNamespace(),
			"labels": object{
				"catalog": source.GetName(), "catalog-namespace": source.GetNamespace(), simulated: "true",
			},
		},
		"status": object{
			"catalogSource": source.GetName(), "catalogSourceNamespace": source.GetNamespace(),
			"catalogSourceDisplayName": title, "packageName": one.Name, "defaultChannel": one.DefaultChannelName,
			"channels": channels,
		},
	}, nil
}

func description(csv object) object {
	found := object{}
	spec, _ := csv["spec"].(object)
	for _, name := range []string{"displayName", "version", "installModes", "customresourcedefinitions"} {
		found[name] = spec[name]
	}
	metadata, _ := csv["metadata"].(object)
	found["annotations"] = metadata["annotations"]
	return found
}

// withdraw removes the PackageManifests of catalogs that are gone or not ready.
func withdraw(ctx context.Context, c cluster, ready map[string]bool) {
	list, err := c.Resource(packageManifests).List(ctx, metav1.ListOptions{LabelSelector: simulated + "=true"})
	if err != nil {
		c.log.WithError(err).Warn("can't list PackageManifests")
		return
	}
	for _, one := range list.Items {
		if labels := one.GetLabels(); !ready[labels["catalog-namespace"]+"/"+labels["catalog"]] {
			_ = c.in(packageManifests, one.GetNamespace()).Delete(ctx, one.GetName(), metav1.DeleteOptions{})
		}
	}
}
