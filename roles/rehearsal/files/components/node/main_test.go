package main

import (
	"strings"
	"testing"
)

// given returns complete arguments, without those that begin with a prefix of left.
func given(left ...string) []string {
	arguments := []string{
		"-data=/d", "-logs=/l", "-group=seatrial-1a", "-api=127.0.0.1:1", "-kubelet=127.0.0.1:20000", "-health=127.0.0.1:3",
		"-kubeconfig=/k", "-own-kubeconfig=/o", "-authority=/a", "-serving=/s", "-image=/i/one.tar", "-image=/i/two.tar",
	}
	for _, name := range []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "bridge", "host-local"} {
		arguments = append(arguments, "-program="+name+"=/bin/"+name)
	}
	kept := []string{}
	for _, one := range arguments {
		wanted := true
		for _, prefix := range left {
			wanted = wanted && !strings.HasPrefix(one, prefix)
		}
		if wanted {
			kept = append(kept, one)
		}
	}
	return kept
}

func TestArgumentsAreRead(t *testing.T) {
	s, err := parse(append(given(), "-limits=true"))
	if err != nil {
		t.Fatal(err)
	}
	if s.port != 20000 || len(s.images) != 2 || s.programs["ctr"] != "/bin/ctr" || !s.limits || s.rootless {
		t.Errorf("%+v", s)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, one := range []struct{ left, more, words string }{
		{"-data", "", "-data is required"},
		{"-program=runc", "", "-program runc=path is required"},
		{"-kubelet", "-kubelet=127.0.0.1", `-kubelet is "127.0.0.1", not host:port`},
		{"-group", "-group=../x", `-group is "../x": lower-case letters`},
		{"-logs", "-logs=l", "l is not an absolute path"},
		{"-image", "-program=kubelet", `"kubelet" is not name=path`},
	} {
		arguments := given(one.left)
		if one.more != "" {
			arguments = append(arguments, one.more)
		}
		if _, err := parse(arguments); err == nil || !strings.Contains(err.Error(), one.words) {
			t.Errorf("%s %s: %v", one.left, one.more, err)
		}
	}
}
