package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Words of answers. Some need several bytes a character, so that a client that splits text at bytes is found out.
var words = []string{"this", "answer", "is", "simulated", "naïve", "日本語", "token", "🚢", "after", "another"}

type server struct {
	number  int
	models  []string
	log     *truthLog
	batch   *batch
	metrics *metrics
	mu      sync.Mutex
	tries   map[string]int // of each request that is to be refused a number of times
}

func newServer(number int, models []string, log *truthLog, initial settings) *server {
	m := newMetrics()
	return &server{number: number, models: models, log: log, batch: newBatch(initial, m), metrics: m, tries: map[string]int{}}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, true) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, false) })
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if s.authorised(w, r) == http.StatusOK {
			data := []map[string]any{}
			for _, model := range s.models {
				data = append(data, map[string]any{"id": model, "object": "model", "owned_by": "simulated", "created": 0, "max_model_len": 131072})
			}
			writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		waiting, running, tokens := s.batch.load()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		s.metrics.write(w, s.models[0], waiting, running, tokens, s.current().CacheBlocks*blockTokens)
	})
	mux.HandleFunc("GET /simulation", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.current()) })
	mux.HandleFunc("PUT /simulation", s.change)
	return mux
}

func (s *server) current() settings {
	s.batch.mu.Lock()
	defer s.batch.mu.Unlock()
	return s.batch.settings
}

func (s *server) change(w http.ResponseWriter, r *http.Request) {
	wanted := s.current()
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&wanted)
	if err == nil {
		err = wanted.check()
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.batch.mu.Lock()
	s.batch.settings = wanted
	s.batch.mu.Unlock()
	writeJSON(w, http.StatusOK, wanted)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Simulated", "true")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

func errorBody(status int, message string) map[string]any {
	return map[string]any{"error": map[string]any{"message": message, "type": strings.ReplaceAll(http.StatusText(status), " ", ""), "param": nil, "code": status}}
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, errorBody(status, message))
}

// authorised answers a request without a valid key itself; it returns the status.
func (s *server) authorised(w http.ResponseWriter, r *http.Request) int {
	now := s.current()
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case now.ExpiredKey != "" && key == now.ExpiredKey:
		writeError(w, http.StatusUnauthorized, "the key has expired")
	case now.APIKey != "" && key != now.APIKey:
		writeError(w, http.StatusUnauthorized, "Unauthorized")
	default:
		return http.StatusOK
	}
	return http.StatusUnauthorized
}

// request is what is read of a body.
type request struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Prompt   json.RawMessage `json:"prompt"`
	Stream   bool            `json:"stream"`
	Options  struct {
		Usage      bool `json:"include_usage"`
		Continuous bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
}

type message struct {
	Content json.RawMessage `json:"content"`
}

// promptWords returns the words of a prompt: the simulated tokenizer makes a token of each.
func (q request) promptWords() []string {
	texts := []json.RawMessage{q.Prompt}
	for _, one := range q.Messages {
		texts = append(texts, one.Content)
	}
	found := []string{}
	for _, raw := range texts {
		var text string
		var parts []struct{ Text string }
		var ids []int
		if json.Unmarshal(raw, &text) == nil {
			found = append(found, strings.Fields(text)...)
		} else if json.Unmarshal(raw, &ids) == nil {
			for _, id := range ids {
				found = append(found, strconv.Itoa(id))
			}
		} else if json.Unmarshal(raw, &parts) == nil {
			for _, part := range parts {
				found = append(found, strings.Fields(part.Text)...)
			}
		}
	}
	return found
}

func (q request) wanted() int {
	for _, given := range []*int{q.MaxCompletionTokens, q.MaxTokens} {
		if given != nil {
			return *given
		}
	}
	return 16
}

// faults are what the header X-Simulate asks for, such as "status=429,retry_after=1" or "reset_after=5".
type faults map[string]string

func readFaults(header string) (faults, error) {
	known := []string{"status", "retry_after", "times", "no_stream", "no_usage", "error_after", "reset_after", "truncate_after", "stall_after",
		"stall_ms", "tokens_per_chunk", "split", "crlf", "ping", "close"}
	f := faults{}
	for _, part := range strings.FieldsFunc(header, func(c rune) bool { return c == ',' || c == ' ' }) {
		name, value, _ := strings.Cut(part, "=")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("X-Simulate: unknown '%s'; there are %s", name, strings.Join(known, ", "))
		}
		f[name] = value
	}
	return f, nil
}

func (f faults) has(name string) bool { _, ok := f[name]; return ok }

// number returns the value of a fault, missing if it is not asked for.
func (f faults) number(name string, missing int) int {
	if value, err := strconv.Atoi(f[name]); err == nil {
		return value
	}
	return missing
}

// refuses returns whether this try of a request gets the status that was asked for.
func (s *server) refuses(f faults, id string) bool {
	if !f.has("status") {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[id]++
	return !f.has("times") || s.tries[id] <= f.number("times", 0)
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, chat bool) {
	conn, _ := r.Context().Value(connKey{}).(*stampedConn)
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	id := r.Header.Get("X-Request-Id")
	line := truth{RequestID: id, Server: s.number, Simulate: r.Header.Get("X-Simulate"), Writes: []int64{}, Sizes: []int{}, How: "refused"}
	if conn != nil {
		line.Received, _ = conn.times()
	}
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Simulated", "true")
	defer func() {
		line.Ended = time.Now().UnixNano()
		s.metrics.served(line)
		s.log.write(line)
	}()
	refuse := func(status int, message string) {
		line.Status = status
		writeError(w, status, message)
	}
	if status := s.authorised(w, r); status != http.StatusOK {
		line.Status = status
		return
	}
	var q request
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	f, wrong := readFaults(line.Simulate)
	if err = errors.Join(err, wrong); err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	line.Model = q.Model
	prompt := q.promptWords()
	line.PromptTokens = len(prompt)
	switch {
	case s.refuses(f, id):
		if f.has("retry_after") {
			w.Header().Set("Retry-After", f["retry_after"])
		}
		refuse(f.number("status", http.StatusTooManyRequests), "simulated refusal")
		return
	case !slices.Contains(s.models, q.Model):
		refuse(http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", q.Model))
		return
	case len(prompt) == 0 || q.wanted() < 1:
		refuse(http.StatusBadRequest, "the prompt is empty, or max_tokens is below 1")
		return
	}
	seq := &sequence{ctx: r.Context(), blocks: blocksOf(prompt), prompt: len(prompt), wanted: q.wanted(), arrived: time.Now(), tokens: make(chan int, q.wanted())}
	if f.has("close") {
		w.Header().Set("Connection", "close")
	}
	if !s.batch.add(seq) {
		w.Header().Set("Retry-After", "1")
		refuse(http.StatusTooManyRequests, "the queue is full")
		return
	}
	line.Status = http.StatusOK
	(&reply{w: w, conn: conn, line: &line, seq: seq, q: q, f: f, chat: chat}).write()
}

// reply writes the answer to one request.
type reply struct {
	w    http.ResponseWriter
	conn *stampedConn
	line *truth
	seq  *sequence
	q    request
	f    faults
	chat bool
}

func (a *reply) write() {
	defer func() { a.line.CachedTokens, a.line.QueuedS = a.seq.cached, a.seq.queued.Seconds() }()
	if !a.q.Stream || a.f.has("no_stream") {
		a.whole()
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.flush("")
	if a.chat {
		a.event(a.chunk(map[string]any{"role": "assistant", "content": ""}, nil), false)
	}
	size := max(1, a.f.number("tokens_per_chunk", 1))
	text, held := "", 0
	for number := range a.seq.tokens {
		if number == 0 {
			text = words[0]
		} else {
			text += " " + words[number%len(words)]
		}
		if held++; held < size && number+1 < a.seq.wanted {
			continue
		}
		if !a.token(text, held) {
			return
		}
		text, held = "", 0
	}
	if a.seq.ctx.Err() != nil {
		a.line.How = "gone"
		return
	}
	a.event(a.chunk(map[string]any{}, "length"), false)
	if a.q.Options.Usage && !a.f.has("no_usage") {
		a.event(a.frame([]any{}, true), false)
	}
	a.flush("data: [DONE]" + a.end())
	a.line.How = "complete"
}

// token writes a chunk with tokens, and what was asked for after it; false: the answer ends here.
func (a *reply) token(text string, size int) bool {
	a.line.OutputTokens += size
	delta := map[string]any{"content": text}
	a.event(a.chunk(delta, nil), true)
	_, wrote := a.conn.times()
	a.line.Writes, a.line.Sizes = append(a.line.Writes, wrote), append(a.line.Sizes, size)
	if a.f.has("ping") {
		a.flush(": ping" + a.end())
	}
	sent := a.line.OutputTokens
	reached := func(name string) bool { return a.f.has(name) && sent >= a.f.number(name, 1) }
	switch {
	case reached("error_after"):
		text, _ := json.Marshal(errorBody(http.StatusInternalServerError, "simulated error"))
		a.flush("data: " + string(text) + a.end() + "data: [DONE]" + a.end())
		a.line.How = "error"
		return false
	case reached("reset_after"):
		if tcp, ok := a.conn.Conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		a.conn.Close()
		a.line.How = "reset"
		return false
	case reached("truncate_after"):
		a.line.How = "truncated"
		// net/http closes the connection without the last chunk.
		panic(http.ErrAbortHandler)
	case reached("stall_after"):
		time.Sleep(time.Duration(a.f.number("stall_ms", 100)) * time.Millisecond)
		delete(a.f, "stall_after")
	}
	return true
}

func (a *reply) end() string {
	if a.f.has("crlf") {
		return "\r\n\r\n"
	}
	return "\n\n"
}

func (a *reply) event(value map[string]any, split bool) {
	text, _ := json.Marshal(value)
	whole := "data: " + string(text) + a.end()
	if at := strings.LastIndexFunc(whole, func(c rune) bool { return c > 127 }); split && a.f.has("split") && at > 0 {
		// In the middle of a character. The first part is on its way before the second is written.
		a.flush(whole[:at+1])
		time.Sleep(200 * time.Microsecond)
		whole = whole[at+1:]
	}
	a.flush(whole)
}

func (a *reply) flush(text string) {
	io.WriteString(a.w, text)
	http.NewResponseController(a.w).Flush()
}

func (a *reply) chunk(delta map[string]any, finish any) map[string]any {
	choice := map[string]any{"index": 0, "finish_reason": finish, "logprobs": nil}
	if a.chat {
		choice["delta"] = delta
	} else {
		choice["text"], _ = delta["content"].(string)
	}
	return a.frame([]any{choice}, a.q.Options.Continuous)
}

func (a *reply) frame(choices []any, usage bool) map[string]any {
	object, prefix := "text_completion", "cmpl-"
	if a.chat {
		object, prefix = "chat.completion", "chatcmpl-"
	}
	if a.chat && a.q.Stream && !a.f.has("no_stream") {
		object += ".chunk"
	}
	frame := map[string]any{"id": prefix + a.line.RequestID, "object": object, "created": a.line.Received / 1e9, "model": a.q.Model,
		"system_fingerprint": "simulated", "choices": choices}
	if usage {
		frame["usage"] = map[string]any{"prompt_tokens": a.seq.prompt, "completion_tokens": a.line.OutputTokens,
			"total_tokens": a.seq.prompt + a.line.OutputTokens, "prompt_tokens_details": map[string]any{"cached_tokens": a.seq.cached}}
	}
	return frame
}

// whole answers without a stream.
func (a *reply) whole() {
	made := []string{}
	for number := range a.seq.tokens {
		made = append(made, words[number%len(words)])
	}
	if a.seq.ctx.Err() != nil {
		a.line.How = "gone"
		return
	}
	a.line.OutputTokens = len(made)
	choice := map[string]any{"index": 0, "finish_reason": "length"}
	if a.chat {
		choice["message"] = map[string]any{"role": "assistant", "content": strings.Join(made, " ")}
	} else {
		choice["text"] = strings.Join(made, " ")
	}
	writeJSON(a.w, http.StatusOK, a.frame([]any{choice}, !a.f.has("no_usage")))
	http.NewResponseController(a.w).Flush()
	_, wrote := a.conn.times()
	a.line.Writes, a.line.Sizes = append(a.line.Writes, wrote), append(a.line.Sizes, len(made))
	a.line.How = "complete"
}
