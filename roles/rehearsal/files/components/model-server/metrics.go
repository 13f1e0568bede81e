package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
)

var bounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160}

type histogram struct {
	counts []int
	sum    float64
	count  int
}

func (h *histogram) add(value float64) {
	if h.counts == nil {
		h.counts = make([]int, len(bounds))
	}
	if at := sort.SearchFloat64s(bounds, value); at < len(bounds) {
		h.counts[at]++
	}
	h.sum += value
	h.count++
}

// metrics of one server, under the names that vLLM gives them.
type metrics struct {
	mu         sync.Mutex
	counters   map[string]float64
	histograms map[string]*histogram
}

func newMetrics() *metrics {
	m := &metrics{counters: map[string]float64{}, histograms: map[string]*histogram{}}
	for _, name := range []string{"time_to_first_token", "inter_token_latency", "e2e_request_latency", "request_queue_time"} {
		m.histograms[name] = &histogram{}
	}
	for _, name := range []string{"prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits"} {
		m.counters[name] = 0
	}
	return m
}

func (m *metrics) admitted(s *sequence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.histograms["request_queue_time"].add(s.queued.Seconds())
	m.counters["prompt_tokens"] += float64(s.prompt)
	m.counters["prefix_cache_queries"] += float64(s.prompt)
	m.counters["prefix_cache_hits"] += float64(s.cached)
}

// served takes what was sent of a request: the nanoseconds at which it came and at which its chunks were written.
func (m *metrics) served(line truth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters["generation_tokens"] += float64(line.OutputTokens)
	for number, at := range line.Writes {
		if number == 0 {
			m.histograms["time_to_first_token"].add(float64(at-line.Received) / 1e9)
		} else {
			m.histograms["inter_token_latency"].add(float64(at-line.Writes[number-1]) / 1e9)
		}
	}
	if line.How == "complete" {
		m.histograms["e2e_request_latency"].add(float64(line.Ended-line.Received) / 1e9)
		m.counters["request_success"]++
	}
}

// write writes the text format of Prometheus.
func (m *metrics) write(out io.Writer, model string, waiting, running, tokens, capacity int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := fmt.Sprintf("engine=\"0\",model_name=%q", model)
	usage := 0.0
	if capacity > 0 {
		usage = min(1, float64(tokens)/float64(capacity))
	}
	for _, gauge := range []struct {
		name  string
		value float64
	}{{"num_requests_waiting", float64(waiting)}, {"num_requests_running", float64(running)}, {"kv_cache_usage_perc", usage}} {
		fmt.Fprintf(out, "# HELP vllm:%s simulated\n# TYPE vllm:%s gauge\nvllm:%s{%s} %v\n", gauge.name, gauge.name, gauge.name, label, gauge.value)
	}
	for _, name := range sortedKeys(m.counters) {
		more := ""
		if name == "request_success" {
			more = ",finished_reason=\"length\""
		}
		fmt.Fprintf(out, "# HELP vllm:%s simulated\n# TYPE vllm:%s counter\nvllm:%s_total{%s%s} %v\n", name, name, name, label, more, m.counters[name])
	}
	for _, name := range sortedKeys(m.histograms) {
		h := m.histograms[name]
		full := "vllm:" + name + "_seconds"
		fmt.Fprintf(out, "# HELP %s simulated\n# TYPE %s histogram\n", full, full)
		below := 0
		for at, bound := range bounds {
			if h.counts != nil {
				below += h.counts[at]
			}
			fmt.Fprintf(out, "%s_bucket{%s,le=\"%s\"} %d\n", full, label, strings.TrimSuffix(fmt.Sprint(bound), ".0"), below)
		}
		fmt.Fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %v\n%s_count{%s} %d\n", full, label, h.count, full, label, h.sum, full, label, h.count)
	}
}

func sortedKeys[V any](of map[string]V) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
