package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// review is the part of an AdmissionReview that is read here.
type review struct {
	Request struct {
		UID       string                      `json:"uid"`
		Operation string                      `json:"operation"`
		Resource  metav1.GroupVersionResource `json:"resource"`
		Object    unstructured.Unstructured   `json:"object"`
	} `json:"request"`
}

// serveWebhook refuses what the webhooks of OpenShift AI refuse: a second DataScienceCluster or DSCInitialization, and with
// version 3 the embedded Kueue.
func serveWebhook(ctx context.Context, c cluster, o options) error {
	handler := http.NewServeMux()
	handler.HandleFunc("/validate", func(w http.ResponseWriter, r *http.Request) {
		var asked review
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		why := refused(ctx, c, asked)
		answer := object{"uid": asked.Request.UID, "allowed": why == ""}
		if why != "" {
			answer["status"] = object{"code": http.StatusForbidden, "message": why}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
	})
	server := &http.Server{Addr: o.webhook, Handler: handler}
	return server.ListenAndServeTLS(o.certificate, o.key)
}

// refused returns why a request is refused, "" if it is not.
func refused(ctx context.Context, c cluster, asked review) string {
	request := asked.Request
	kind := schema.GroupVersionResource{
		Group: request.Resource.Group, Version: request.Resource.Version, Resource: request.Resource.Resource}
	if request.Operation == "CREATE" {
		list, err := c.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "can't list " + kind.Resource + ": " + err.Error()
		}
		if len(list.Items) > 0 {
			return "there is a " + list.Items[0].GetKind() + " already, and only one is allowed: " + list.Items[0].GetName()
		}
	}
	state, _, _ := unstructured.NestedString(request.Object.Object, "spec", "components", "kueue", "managementState")
	if state == "Managed" && strings.HasPrefix(kind.Group, "datasciencecluster.") && kind.Version != "v1" {
		return "kueue: Managed is no longer supported as a managementState"
	}
	return ""
}
