package main

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// addresses brings up the loopback interface of a new network namespace and gives it more addresses.
func addresses(all ...string) error {
	handle, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(handle, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	for number, text := range all {
		// Each further address needs a label; a mask of 32 bits, or the whole network would be local.
		name := fmt.Sprintf("lo:%d", number+1)
		mask := netip.AddrFrom4([4]byte{255, 255, 255, 255})
		for _, step := range []struct {
			call  uint
			value netip.Addr
		}{{unix.SIOCSIFADDR, netip.MustParseAddr(text)}, {unix.SIOCSIFNETMASK, mask}} {
			request, err := unix.NewIfreq(name)
			if err == nil {
				err = request.SetInet4Addr(step.value.AsSlice())
			}
			if err == nil {
				err = unix.IoctlIfreq(handle, step.call, request)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644)
}
