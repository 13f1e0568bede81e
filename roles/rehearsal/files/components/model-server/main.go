// A simulated inference server: it answers as vLLM's OpenAI-style server does and computes nothing.
//
// The time of an answer follows from a batch of requests that advances in steps, as that of vLLM: each step costs a fixed
// time, a time for each request in the batch, and a time for each prompt token that no cached prefix covers. All of it can
// be set. What the server did to each request is in its truth log, which a client is compared with.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// settings of one server. GET /simulation shows them, PUT /simulation changes those that it names.
type settings struct {
	StepMS       float64 `json:"step_ms"`              // of each step of the batch, and so the least time between two tokens
	StepPerSeqMS float64 `json:"step_per_request_ms"`  // more for each request in the batch
	PrefillUS    float64 `json:"prefill_us_per_token"` // for each prompt token that is not cached
	MaxSeqs      int     `json:"max_num_seqs"`         // requests in the batch; others wait
	MaxQueue     int     `json:"max_queue"`            // requests that may wait, 0: any number; more are answered with 429
	MaxBatched   int     `json:"max_num_batched_tokens"`
	CacheBlocks  int     `json:"cache_blocks"` // of 16 tokens; 0: no prefix cache
	APIKey       string  `json:"api_key"`      // if not empty, required
	ExpiredKey   string  `json:"expired_key"`  // refused as expired
	Slow         float64 `json:"slow"`         // factor of all times, for a server that has become slower
}

func (s settings) check() error {
	for name, value := range map[string]float64{"step_ms": s.StepMS, "step_per_request_ms": s.StepPerSeqMS,
		"prefill_us_per_token": s.PrefillUS, "max_queue": float64(s.MaxQueue), "cache_blocks": float64(s.CacheBlocks), "slow": s.Slow} {
		if value < 0 {
			return fmt.Errorf("%s is %v, it must be 0 or more", name, value)
		}
	}
	if s.MaxSeqs < 1 || s.MaxBatched < 1 {
		return fmt.Errorf("max_num_seqs is %d and max_num_batched_tokens %d, both must be 1 or more", s.MaxSeqs, s.MaxBatched)
	}
	return nil
}

func defaults() settings {
	return settings{StepMS: 8, StepPerSeqMS: 0.1, PrefillUS: 50, MaxSeqs: 64, MaxBatched: 2048, CacheBlocks: 4096, Slow: 1}
}

// stampedConn notes when its last bytes were written and read, next to the system call.
type stampedConn struct {
	net.Conn
	mu          sync.Mutex
	read, wrote int64
}

func (c *stampedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		now := time.Now().UnixNano()
		c.mu.Lock()
		c.read = now
		c.mu.Unlock()
	}
	return n, err
}

func (c *stampedConn) Write(p []byte) (int, error) {
	now := time.Now().UnixNano()
	c.mu.Lock()
	c.wrote = now
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *stampedConn) times() (read, wrote int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read, c.wrote
}

type stampedListener struct{ net.Listener }

func (l stampedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stampedConn{Conn: conn}, nil
}

type connKey struct{}

// truth is one line of the truth log. Times in nanoseconds since the epoch, those of tokens just before each write.
type truth struct {
	RequestID    string  `json:"request_id"`
	Server       int     `json:"server"`
	Received     int64   `json:"received"`
	Status       int     `json:"status"`
	Simulate     string  `json:"simulate,omitempty"`
	Model        string  `json:"model"`
	PromptTokens int     `json:"prompt_tokens"`
	CachedTokens int     `json:"cached_tokens"`
	OutputTokens int     `json:"output_tokens"`
	QueuedS      float64 `json:"queued_s"`
	Writes       []int64 `json:"writes"` // of each chunk with tokens
	Sizes        []int   `json:"sizes"`  // tokens in each of them
	Ended        int64   `json:"ended"`
	How          string  `json:"how"` // complete, refused, error, reset, truncated, gone
}

// truthLog appends lines to a file, each in one write.
type truthLog struct {
	mu   sync.Mutex
	file *os.File
}

func (l *truthLog) write(line truth) {
	if l.file == nil {
		return
	}
	data, err := json.Marshal(line)
	if err == nil {
		l.mu.Lock()
		_, err = l.file.Write(append(data, '\n'))
		l.mu.Unlock()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "model-server: truth log:", err)
	}
}

func run(ctx context.Context, listen []string, models []string, log *truthLog, initial settings) error {
	failed := make(chan error, len(listen))
	servers := []*http.Server{}
	for number, address := range listen {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		one := &http.Server{Handler: newServer(number, models, log, initial).handler(), ReadHeaderTimeout: time.Minute,
			ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, conn)
			}}
		servers = append(servers, one)
		go func() { failed <- one.Serve(stampedListener{listener}) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for _, one := range servers {
		one.Close()
	}
	return err
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "addresses, separated by commas: each is a server of its own")
	models := flag.String("models", "simulated-model,simulated-model-b", "names of models, separated by commas")
	truthPath := flag.String("truth", "", "file to which a line is appended for each request")
	given := flag.String("settings", "{}", "settings of all servers, as JSON; GET /simulation shows them")
	flag.Parse()
	initial := defaults()
	log := &truthLog{}
	err := json.Unmarshal([]byte(*given), &initial)
	if err == nil {
		err = initial.check()
	}
	if err == nil && *truthPath != "" {
		log.file, err = os.OpenFile(*truthPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = run(ctx, strings.Split(*listen, ","), strings.Split(*models, ","), log, initial)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "model-server:", err)
		os.Exit(1)
	}
}
