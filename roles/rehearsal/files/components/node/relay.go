package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// relay carries the connections that reach one address to another. An address is tcp:host:port or unix:path.
func relay(from, to string) (net.Listener, error) {
	network, address, found := strings.Cut(from, ":")
	if !found {
		return nil, fmt.Errorf("%q is not an address", from)
	}
	if network == "unix" {
		// Left by a run that was killed.
		if err := os.Remove(address); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	toNetwork, toAddress, _ := strings.Cut(to, ":")
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go carry(near, toNetwork, toAddress)
		}
	}()
	return listener, nil
}

// carry joins a connection to a new one, in both directions, until both have ended.
func carry(near net.Conn, network, address string) {
	defer near.Close()
	far, err := net.Dial(network, address)
	if err != nil {
		return // the caller's connection closes
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	half := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if one, ok := to.(interface{ CloseWrite() error }); ok {
			_ = one.CloseWrite()
		}
		done <- struct{}{}
	}
	go half(far, near)
	go half(near, far)
	<-done
	<-done
}
