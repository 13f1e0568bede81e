package main

import (
	"context"
	"net"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// registry serves one catalog. Name "*" serves the operators of all.
type registry struct {
	api.UnimplementedRegistryServer
	file, name  string
	definitions definitions
}

// runCatalog serves every catalog at its own address.
func runCatalog(ctx context.Context, o options, ready *readiness, _ *logrus.Logger) error {
	if _, err := loadOperators(o.file); err != nil {
		return err
	}
	known, err := loadDefinitions(o.definitions)
	if err != nil {
		return err
	}
	failed := make(chan error, len(o.catalogs))
	for _, one := range o.catalogs {
		listener, err := net.Listen("tcp", one[1])
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		api.RegisterRegistryServer(server, &registry{file: o.file, name: one[0], definitions: known})
		signs := health.NewServer()
		signs.SetServingStatus("Registry", grpc_health_v1.HealthCheckResponse_SERVING)
		grpc_health_v1.RegisterHealthServer(server, signs)
		go func() { failed <- server.Serve(listener) }()
	}
	ready.Store(true)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (r *registry) operators() ([]operator, error) {
	all, err := loadOperators(r.file)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	var found []operator
	for _, one := range all {
		if r.name == "*" || one.Catalog == r.name {
			found = append(found, one)
		}
	}
	return found, nil
}

func (r *registry) find(name string) (operator, error) {
	all, err := r.operators()
	if err != nil {
		return operator{}, err
	}
	for _, one := range all {
		if one.Package == name {
			return one, nil
		}
	}
	return operator{}, status.Errorf(codes.NotFound, "no package %q in this catalog", name)
}

// ListPackages names all packages.
func (r *registry) ListPackages(_ *api.ListPackageRequest, stream api.Registry_ListPackagesServer) error {
	all, err := r.operators()
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := stream.Send(&api.PackageName{Name: one.Package}); err != nil {
			return err
		}
	}
	return nil
}

// GetPackage returns the channels of a package.
func (r *registry) GetPackage(_ context.Context, request *api.GetPackageRequest) (*api.Package, error) {
	one, err := r.find(request.GetName())
	if err != nil {
		return nil, err
	}
	return one.pkg(), nil
}

// ListBundles returns every version with its objects.
func (r *registry) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	all, err := r.operators()
	if err != nil {
		return err
	}
	for _, one := range all {
		bundles, err := one.bundles(r.definitions)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		for _, bundle := range bundles {
			if err := stream.Send(bundle); err != nil {
				return err
			}
		}
	}
	return nil
}

// GetBundle returns one version.
func (r *registry) GetBundle(_ context.Context, request *api.GetBundleRequest) (*api.Bundle, error) {
	one, err := r.find(request.GetPkgName())
	if err != nil {
		return nil, err
	}
	bundles, err := one.bundles(r.definitions)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	for _, bundle := range bundles {
		if bundle.ChannelName == request.GetChannelName() && bundle.CsvName == request.GetCsvName() {
			return bundle, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "no %q in channel %q", request.GetCsvName(), request.GetChannelName())
}
