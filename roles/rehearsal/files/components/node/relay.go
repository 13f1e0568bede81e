package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// relay carries the connections that reach one address to another. An address is tcp:host:port or unix:path.
func relay(from, to string) (net.Listener, error) {
	network, address, found := strings.Cut(from, ":")
	if !found {
		return nil, fmt.Errorf("%q is not an address", from)
	}
	var listener net.Listener
	var err error
	if network == "unix" {
		listener, err = listenUnix(address)
	} else {
		listener, err = net.Listen(network, address)
	}
	if err != nil {
		return nil, err
	}
	toNetwork, toAddress, _ := strings.Cut(to, ":")
	go acceptAll(listener, func(near net.Conn) { go carryTo(near, toNetwork, toAddress, "") })
	return listener, nil
}

// acceptAll gives each connection of a listener to take until the listener is closed. Any other error passes, such as
// too many open files.
func acceptAll(listener net.Listener, take func(net.Conn)) {
	for {
		near, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond)
		default:
			take(near)
		}
	}
}

// listenUnix listens on a socket, also if a run that was killed has left it.
func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// carryTo joins a connection to a new one, which begins with the text first, in both directions, until both have ended.
func carryTo(near net.Conn, network, address, first string) {
	defer near.Close()
	far, err := net.Dial(network, address)
	if err != nil {
		return // the caller's connection closes
	}
	defer far.Close()
	if _, err := io.WriteString(far, first); err != nil {
		return
	}
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
