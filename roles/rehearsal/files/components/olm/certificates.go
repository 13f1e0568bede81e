package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	certManagers        = schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1alpha1", Resource: "certmanagers"}
	certificates        = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	certificateRequests = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	issuers             = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}
	secrets             = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases              = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// playCertManager runs cert-manager in its own namespace. As on a cluster, nobody owns what it needs beside it, and its
// operator does not remove it.
func playCertManager(ctx context.Context, c cluster, _, one unstructured.Unstructured) bool {
	ready := !early(one)
	for _, name := range []string{"cert-manager", "cert-manager-cainjector", "cert-manager-webhook"} {
		ready = deploy(ctx, c, one, "cert-manager", name, nil) && ready
	}
	rbac := func(kind string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: kind}
	}
	admission := func(kind string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: kind}
	}
	for _, other := range []struct {
		resource              schema.GroupVersionResource
		kind, namespace, name string
		more                  object
	}{
		{rbac("clusterroles"), "ClusterRole", "", "cert-manager-controller-issuers", nil},
		{rbac("clusterrolebindings"), "ClusterRoleBinding", "", "cert-manager-controller-issuers",
			granted("ClusterRole", "cert-manager-controller-issuers")},
		{rbac("roles"), "Role", "kube-system", "cert-manager:leaderelection", nil},
		{rbac("rolebindings"), "RoleBinding", "kube-system", "cert-manager:leaderelection", granted("Role", "cert-manager:leaderelection")},
		{admission("mutatingwebhookconfigurations"), "MutatingWebhookConfiguration", "", "cert-manager-webhook", nil},
		{admission("validatingwebhookconfigurations"), "ValidatingWebhookConfiguration", "", "cert-manager-webhook", nil},
		{leases, "Lease", "kube-system", "cert-manager-controller", nil},
	} {
		labels := object{simulated: "true"}
		if other.resource != leases {
			labels["app.kubernetes.io/instance"] = "cert-manager"
		}
		wanted := object{"apiVersion": apiVersion(other.resource), "kind": other.kind, "metadata": object{
			"name": other.name, "namespace": other.namespace, "labels": labels}}
		for key, value := range other.more {
			wanted[key] = value
		}
		c.apply(ctx, other.resource, wanted)
	}
	reason := map[bool]string{true: "AsExpected", false: "DeploymentsNotAvailable"}[ready]
	report(ctx, c, certManagers, one, object{"conditions": []object{
		condition(one, "Available", ready, reason, playedMessage),
	}}, reason)
	return ready
}

// granted is the rest of a binding that gives a role to cert-manager.
func granted(kind, name string) object {
	return object{
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
		"subjects": []object{{"kind": "ServiceAccount", "name": "cert-manager", "namespace": "cert-manager"}},
	}
}

// playCertificate makes what cert-manager makes of a Certificate: a request that it owns, and a Secret that nobody owns.
func playCertificate(ctx context.Context, c cluster, _, one unstructured.Unstructured) bool {
	c.apply(ctx, certificateRequests, object{
		"apiVersion": apiVersion(certificateRequests), "kind": "CertificateRequest",
		"metadata": owned(one, one.GetNamespace(), one.GetName()+"-1", nil),
	})
	if name, _, _ := unstructured.NestedString(one.Object, "spec", "secretName"); name != "" {
		c.applyAs(ctx, "cert-manager-certificates-issuing", secrets, object{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
			"metadata": object{"name": name, "namespace": one.GetNamespace(), "labels": object{simulated: "true"}},
			"data":     object{"tls.crt": "", "tls.key": ""},
		})
	}
	report(ctx, c, certificates, one, object{"conditions": []object{
		condition(one, "Ready", true, "Ready", playedMessage),
	}}, "Issued")
	return true
}

// certified plays a resource whose operator asks cert-manager for certificates, and is not ready without it.
func certified(kind schema.GroupVersionResource, prefix string, play player) player {
	return func(ctx context.Context, c cluster, operator, one unstructured.Unstructured) bool {
		if !exists(ctx, c, definitionKind, "issuers.cert-manager.io") {
			report(ctx, c, kind, one, object{"conditions": []object{
				condition(one, "Available", false, "MissingDependency", "cert-manager is not installed"),
			}}, "MissingDependency")
			return false
		}
		c.apply(ctx, issuers, object{
			"apiVersion": apiVersion(issuers), "kind": "Issuer",
			"metadata": owned(one, operator.GetNamespace(), prefix+"-selfsigned-issuer", nil),
			"spec":     object{"selfSigned": object{}},
		})
		for name, secret := range map[string]string{"-serving-cert": "webhook-server-cert", "-metrics-cert": "metrics-server-cert"} {
			c.apply(ctx, certificates, object{
				"apiVersion": apiVersion(certificates), "kind": "Certificate",
				"metadata": owned(one, operator.GetNamespace(), prefix+name, nil),
				"spec": object{"secretName": secret,
					"issuerRef": object{"kind": "Issuer", "name": prefix + "-selfsigned-issuer"}},
			})
		}
		return play(ctx, c, operator, one)
	}
}

// certify makes what the operator of cert-manager makes as long as it runs: a namespace, and a CertManager.
func certify(ctx context.Context, c cluster) time.Duration {
	if operatorOf(ctx, c, certManagers) == nil {
		return 0
	}
	if !exists(ctx, c, namespaces, "cert-manager") {
		c.apply(ctx, namespaces, object{"apiVersion": "v1", "kind": "Namespace",
			"metadata": object{"name": "cert-manager", "labels": object{simulated: "true"}}})
	}
	if !exists(ctx, c, certManagers, "cluster") {
		c.apply(ctx, certManagers, object{"apiVersion": apiVersion(certManagers), "kind": "CertManager",
			"metadata": object{"name": "cluster", "labels": object{simulated: "true"}},
			"spec":     object{"managementState": "Managed"}})
	}
	return 2 * time.Second
}
