package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/operator-registry/pkg/api"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	// Defined says that a file of definitions has it; otherwise the bundle brings a stand-in.
	Defined bool `json:"defined"`
	// Major is the major number of the operator's versions that have it, "" for all.
	Major string `json:"major"`
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

// ownedBy returns the kinds that a version of the operator brings.
func (o operator) ownedBy(version string) []definition {
	found := []definition{}
	for _, one := range o.Owned {
		if one.Major == "" || strings.HasPrefix(version, one.Major+".") {
			found = append(found, one)
		}
	}
	return found
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

// definitions are those of files, by "<name>@<stored version>".
type definitions map[string]object

// loadDefinitions reads CustomResourceDefinitions from files of YAML documents.
func loadDefinitions(paths []string) (definitions, error) {
	found := definitions{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, text := range strings.Split("\n"+string(data), "\n---") {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			for _, version := range crd.Spec.Versions {
				if version.Storage {
					var whole object
					if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
						return nil, fmt.Errorf("%s: %w", path, err)
					}
					found[crd.Name+"@"+version.Name] = whole
				}
			}
		}
	}
	return found, nil
}

// of returns the definition of a kind that a bundle brings.
func (all definitions) of(one definition) (object, error) {
	if !one.Defined {
		return one.standIn(), nil
	}
	found, ok := all[one.name()+"@"+one.Version]
	if !ok {
		return nil, fmt.Errorf("no file of --definitions has %s with the stored version %s", one.name(), one.Version)
	}
	return found, nil
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
	owned := o.ownedBy(version)
	for _, one := range owned {
		groups = append(groups, one.Group)
	}
	rules := []object{{"apiGroups": groups, "resources": []string{"*"}, "verbs": []string{"*"}}}
	spec := object{
		"displayName": o.Title, "version": version, "installModes": o.modes(),
		"provider":                  object{"name": "perfscale.seatrial, a stand-in"},
		"description":               "Stands in for the operator of this name: its deployments are played.",
		"relatedImages":             []object{{"name": "manager", "image": o.image(version)}},
		"customresourcedefinitions": object{"owned": described(owned), "required": described(o.Required)},
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
func (o operator) bundles(all definitions) ([]*api.Bundle, error) {
	var found []*api.Bundle
	for channel, versions := range o.Channels {
		before := ""
		for _, version := range versions {
			objects := []object{o.csv(version, before)}
			owned := o.ownedBy(version)
			for _, one := range owned {
				crd, err := all.of(one)
				if err != nil {
					return nil, err
				}
				objects = append(objects, crd)
			}
			bundle := &api.Bundle{
				CsvName: o.csvName(version), PackageName: o.Package, ChannelName: channel,
				ProvidedApis: kinds(owned), RequiredApis: kinds(o.Required), Version: version, Replaces: before,
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
