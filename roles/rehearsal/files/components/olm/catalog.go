package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/operator-registry/pkg/api"
	"sigs.k8s.io/yaml"
)

// What is played or stands in for something says so with this label.
const simulated = "perfscale.seatrial/simulated"

type object = map[string]any

// definition is a kind that an operator brings or needs.
type definition struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Plural  string `json:"plural"`
	Scope   string `json:"scope"`
	// There says that the real definition is in the cluster already, so the bundle brings none.
	There bool `json:"there"`
}

func (d definition) name() string { return d.Plural + "." + d.Group }

// deployment is one that an operator consists of. Pods with a node selector that fits no node never run.
type deployment struct {
	Name         string            `json:"name"`
	NodeSelector map[string]string `json:"node_selector"`
}

// operator is one package of a catalog with all its versions.
type operator struct {
	Package     string              `json:"package"`
	Catalog     string              `json:"catalog"`
	Title       string              `json:"title"`
	CSV         string              `json:"csv"` // name of a version, with {version} in it
	Default     string              `json:"default"`
	Channels    map[string][]string `json:"channels"` // versions, each replaces the one before
	Modes       []string            `json:"modes"`
	Namespace   string              `json:"namespace"` // the namespace that its provider suggests
	Owned       []definition        `json:"owned"`
	Required    []definition        `json:"required"`
	Deployments []deployment        `json:"deployments"`
	Examples    []object            `json:"examples"`
}

func (o operator) csvName(version string) string {
	return strings.ReplaceAll(o.CSV, "{version}", version)
}

// loadOperators reads the file anew: a test may change it while the catalog is served.
func loadOperators(path string) ([]operator, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document struct {
		Operators []operator `json:"operators"`
	}
	if err := yaml.UnmarshalStrict(data, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return document.Operators, nil
}

// standIn returns a definition that accepts everything and says that it is none of the real ones.
func (d definition) standIn() object {
	anything := object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{
			"name":        d.name(),
			"labels":      object{simulated: "true"},
			"annotations": object{"perfscale.seatrial/stand-in": "accepts everything; the real definition checks more"},
		},
		"spec": object{
			"group": d.Group, "scope": d.Scope,
			"names": object{"kind": d.Kind, "plural": d.Plural, "singular": strings.ToLower(d.Kind), "listKind": d.Kind + "List"},
			"versions": []object{{
				"name": d.Version, "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{
					"type": "object", "properties": object{"spec": anything, "status": anything}}},
			}},
		},
	}
}

func described(kinds []definition) []object {
	found := []object{}
	for _, one := range kinds {
		found = append(found, object{"name": one.name(), "version": one.Version, "kind": one.Kind})
	}
	return found
}

func (o operator) modes() []object {
	found := []object{}
	for _, name := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		supported := false
		for _, one := range o.Modes {
			supported = supported || one == name
		}
		found = append(found, object{"type": name, "supported": supported})
	}
	return found
}

func (o operator) annotations() object {
	examples, _ := json.Marshal(o.Examples)
	if o.Examples == nil {
		examples = []byte("[]")
	}
	return object{"alm-examples": string(examples), "operatorframework.io/suggested-namespace": o.Namespace}
}

func (o operator) image(version string) string {
	return fmt.Sprintf("registry.invalid/%s/operator:%s", o.Package, version)
}

// csv returns the ClusterServiceVersion of a version.
func (o operator) csv(version, replaces string) object {
	account := o.Package
	var deployments []object
	for _, one := range o.Deployments {
		labels := object{"app": one.Name, simulated: "true"}
		pod := object{
			"serviceAccountName": account,
			"containers": []object{{
				"name": "manager", "image": o.image(version),
				"resources": object{"requests": object{"cpu": "100m", "memory": "128Mi"}},
			}},
		}
		if one.NodeSelector != nil {
			pod["nodeSelector"] = one.NodeSelector
		}
		deployments = append(deployments, object{"name": one.Name, "spec": object{
			"replicas": 1, "selector": object{"matchLabels": object{"app": one.Name}},
			"template": object{"metadata": object{"labels": labels}, "spec": pod},
		}})
	}
	var groups []string
	for _, one := range o.Owned {
		groups = append(groups, one.Group)
	}
	rules := []object{{"apiGroups": groups, "resources": []string{"*"}, "verbs": []string{"*"}}}
	spec := object{
		"displayName": o.Title, "version": version, "installModes": o.modes(),
		"provider":                  object{"name": "perfscale.seatrial, a stand-in"},
		"description":               "Stands in for the operator of this name: its deployments are played.",
		"relatedImages":             []object{{"name": "manager", "image": o.image(version)}},
		"customresourcedefinitions": object{"owned": described(o.Owned), "required": described(o.Required)},
		"install": object{"strategy": "deployment", "spec": object{
			"deployments": deployments,
			"clusterPermissions": []object{
				{"serviceAccountName": account, "rules": rules},
			},
			"permissions": []object{{"serviceAccountName": account, "rules": []object{
				{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get", "list"}},
			}}},
		}},
	}
	if replaces != "" {
		spec["replaces"] = replaces
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{
			"name": o.csvName(version), "namespace": "placeholder",
			"labels": object{simulated: "true"}, "annotations": o.annotations(),
		},
		"spec": spec,
	}
}

func kinds(definitions []definition) []*api.GroupVersionKind {
	var found []*api.GroupVersionKind
	for _, one := range definitions {
		found = append(found, &api.GroupVersionKind{Group: one.Group, Version: one.Version, Kind: one.Kind, Plural: one.Plural})
	}
	return found
}

// bundles returns every version of every channel, each with its objects inside, so that nothing has to be unpacked.
func (o operator) bundles() ([]*api.Bundle, error) {
	var found []*api.Bundle
	for channel, versions := range o.Channels {
		before := ""
		for _, version := range versions {
			objects := []object{o.csv(version, before)}
			for _, one := range o.Owned {
				if !one.There {
					objects = append(objects, one.standIn())
				}
			}
			bundle := &api.Bundle{
				CsvName: o.csvName(version), PackageName: o.Package, ChannelName: channel,
				ProvidedApis: kinds(o.Owned), RequiredApis: kinds(o.Required), Version: version, Replaces: before,
			}
			for _, one := range objects {
				text, err := json.Marshal(one)
				if err != nil {
					return nil, err
				}
				bundle.Object = append(bundle.Object, string(text))
			}
			bundle.CsvJson = bundle.Object[0]
			found = append(found, bundle)
			before = o.csvName(version)
		}
	}
	return found, nil
}

func (o operator) pkg() *api.Package {
	found := &api.Package{Name: o.Package, DefaultChannelName: o.Default}
	for name, versions := range o.Channels {
		found.Channels = append(found.Channels, &api.Channel{Name: name, CsvName: o.csvName(versions[len(versions)-1])})
	}
	return found
}
