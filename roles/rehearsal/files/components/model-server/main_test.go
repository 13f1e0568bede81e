package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, change func(*settings)) (url, truthPath string) {
	t.Helper()
	now := defaults()
	now.StepMS, now.StepPerSeqMS, now.PrefillUS = 0.2, 0, 0
	if change != nil {
		change(&now)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	truthPath = filepath.Join(t.TempDir(), "truth.jsonl")
	file, err := os.OpenFile(truthPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go run(ctx, []string{address}, []string{"m"}, &truthLog{file: file}, now)
	url = "http://" + address
	for range 100 {
		if reply, err := http.Get(url + "/health"); err == nil {
			reply.Body.Close()
			return url, truthPath
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not answer")
	return "", ""
}

func post(t *testing.T, url, body, simulate, key string) (*http.Response, string, error) {
	t.Helper()
	r, _ := http.NewRequest("POST", url+"/v1/completions", strings.NewReader(body))
	r.Header.Set("X-Request-Id", "r1")
	r.Header.Set("X-Simulate", simulate)
	r.Header.Set("Authorization", "Bearer "+key)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return reply, string(text), err
}

func body(prompt, tokens int) string {
	return fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, strings.Repeat("w ", prompt), tokens)
}

func lastTruth(t *testing.T, path string) (last truth) {
	t.Helper()
	for range 100 {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		found := false
		for lines.Scan() {
			found = json.Unmarshal(lines.Bytes(), &last) == nil
		}
		file.Close()
		if found {
			return last
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no truth")
	return last
}

func TestEveryTokenIsAChunkAndInTheTruthLog(t *testing.T) {
	url, path := start(t, nil)
	_, text, err := post(t, url, body(40, 7), "", "")
	if err != nil || strings.Count(text, `"finish_reason":null`) != 7 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Fatal(err, text)
	}
	line := lastTruth(t, path)
	if line.How != "complete" || len(line.Writes) != 7 || line.PromptTokens != 40 || line.OutputTokens != 7 || line.RequestID != "r1" {
		t.Fatal(line)
	}
	for number := 1; number < 7; number++ {
		if line.Writes[number] < line.Writes[number-1] || line.Writes[0] < line.Received {
			t.Fatal(line.Writes)
		}
	}
	if !strings.Contains(text, `"completion_tokens":7`) || !strings.Contains(text, "simulated") {
		t.Fatal(text)
	}
}

func TestARepeatedPrefixIsCachedButForTheLastToken(t *testing.T) {
	url, _ := start(t, nil)
	post(t, url, body(64, 1), "", "")
	_, text, _ := post(t, url, body(64, 1), "", "")
	if !strings.Contains(text, `"cached_tokens":63`) {
		t.Fatal(text)
	}
}

func TestWhatIsRefused(t *testing.T) {
	url, _ := start(t, func(s *settings) { s.APIKey, s.ExpiredKey = "good", "old" })
	for _, one := range []struct {
		body, simulate, key string
		status              int
	}{
		{body(1, 1), "", "good", 200}, {body(1, 1), "", "bad", 401}, {body(1, 1), "", "old", 401},
		{strings.Replace(body(1, 1), `"m"`, `"n"`, 1), "", "good", 404}, {body(0, 1), "", "good", 400},
		{body(1, 1), "status=429,retry_after=2", "good", 429}, {body(1, 1), "stat=429", "good", 400},
	} {
		if reply, text, _ := post(t, url, one.body, one.simulate, one.key); reply.StatusCode != one.status {
			t.Error(one, reply.StatusCode, text)
		}
	}
}

func TestAFullQueueIsRefused(t *testing.T) {
	url, _ := start(t, func(s *settings) { s.MaxSeqs, s.MaxQueue, s.StepMS = 1, 1, 50 })
	got := make(chan int, 4)
	for range 4 {
		go func() {
			reply, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body(1, 10)))
			if err != nil {
				got <- 0
				return
			}
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
			got <- reply.StatusCode
		}()
	}
	counts := map[int]int{}
	for range 4 {
		counts[<-got]++
	}
	if counts[429] == 0 || counts[200] == 0 || counts[200]+counts[429] != 4 {
		t.Fatal(counts)
	}
}

func TestAnswersThatBreak(t *testing.T) {
	url, path := start(t, nil)
	for simulate, how := range map[string]string{"error_after=2": "error", "reset_after=2": "reset", "truncate_after=2": "truncated"} {
		os.Truncate(path, 0)
		_, text, err := post(t, url, body(1, 9), simulate, "")
		if line := lastTruth(t, path); line.How != how || line.OutputTokens != 2 {
			t.Error(simulate, line)
		}
		if how == "error" && !strings.Contains(text, "simulated error") || how != "error" && err == nil {
			t.Error(simulate, err, text)
		}
	}
}

func TestMetricsHaveTheNamesOfVLLM(t *testing.T) {
	url, _ := start(t, nil)
	post(t, url, body(20, 3), "", "")
	reply, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(reply.Body)
	for _, wanted := range []string{`vllm:generation_tokens_total{engine="0",model_name="m"} 3`, "vllm:num_requests_running{",
		`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 2`, `vllm:prompt_tokens_total{engine="0",model_name="m"} 20`} {
		if !strings.Contains(string(text), wanted) {
			t.Error(wanted, string(text))
		}
	}
}
