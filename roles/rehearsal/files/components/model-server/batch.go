package main

import (
	"container/list"
	"context"
	"hash/fnv"
	"sync"
	"time"
)

const blockTokens = 16

// sequence is one request in the batch.
type sequence struct {
	ctx      context.Context
	blocks   []uint64 // hash of each whole block of the prompt and all before it
	prompt   int
	wanted   int
	cached   int
	uncached int // prompt tokens still to be computed
	made     int
	arrived  time.Time
	queued   time.Duration
	tokens   chan int // the number of each token; closed after the last; never full
}

// prefixCache keeps the blocks that were used last.
type prefixCache struct {
	order *list.List
	held  map[uint64]*list.Element
}

// hit returns how many of the first blocks are held, and marks them as used.
func (c *prefixCache) hit(blocks []uint64) int {
	for number, block := range blocks {
		element, ok := c.held[block]
		if !ok {
			return number
		}
		c.order.MoveToFront(element)
	}
	return len(blocks)
}

func (c *prefixCache) add(blocks []uint64, most int) {
	for _, block := range blocks {
		if element, ok := c.held[block]; ok {
			c.order.MoveToFront(element)
		} else {
			c.held[block] = c.order.PushFront(block)
		}
	}
	for c.order.Len() > most {
		last := c.order.Back()
		delete(c.held, last.Value.(uint64))
		c.order.Remove(last)
	}
}

// blocksOf returns the hashes of the whole blocks of a prompt.
func blocksOf(words []string) []uint64 {
	hash := fnv.New64a()
	blocks := make([]uint64, 0, len(words)/blockTokens)
	for number, word := range words {
		hash.Write([]byte(word))
		hash.Write([]byte{0})
		if (number+1)%blockTokens == 0 {
			blocks = append(blocks, hash.Sum64())
		}
	}
	return blocks
}

// batch is the simulated engine: requests wait, are computed together in steps, and get a token in each.
type batch struct {
	mu       sync.Mutex
	settings settings
	waiting  []*sequence
	running  []*sequence
	cache    prefixCache
	wake     chan struct{}
	metrics  *metrics
}

func newBatch(initial settings, m *metrics) *batch {
	b := &batch{settings: initial, wake: make(chan struct{}, 1), metrics: m}
	b.cache = prefixCache{list.New(), map[uint64]*list.Element{}}
	go b.loop()
	return b
}

// add puts a request into the queue; false: the queue is full.
func (b *batch) add(s *sequence) bool {
	b.mu.Lock()
	if b.settings.MaxQueue > 0 && len(b.waiting) >= b.settings.MaxQueue {
		b.mu.Unlock()
		return false
	}
	b.waiting = append(b.waiting, s)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

func (b *batch) loop() {
	until := time.Now()
	for {
		b.mu.Lock()
		cost := b.begin()
		b.mu.Unlock()
		if cost < 0 {
			<-b.wake
			until = time.Now()
			continue
		}
		// The delays of the timer do not add up, but after a long one the next step is not shorter: no GPU catches up.
		if time.Since(until) > cost/10 {
			until = time.Now()
		}
		until = until.Add(cost)
		time.Sleep(time.Until(until))
		b.mu.Lock()
		b.finish()
		b.mu.Unlock()
	}
}

// begin admits requests and plans one step; it returns its cost, below 0 if there is nothing to do.
func (b *batch) begin() time.Duration {
	b.drop()
	for len(b.waiting) > 0 && len(b.running) < b.settings.MaxSeqs {
		s := b.waiting[0]
		b.waiting = b.waiting[1:]
		s.queued = time.Since(s.arrived)
		// The last token of a prompt is always computed.
		s.cached = min(b.cache.hit(s.blocks)*blockTokens, s.prompt-1)
		s.uncached = s.prompt - s.cached
		b.metrics.admitted(s)
		b.running = append(b.running, s)
	}
	if len(b.running) == 0 {
		return -1
	}
	left, computed := b.settings.MaxBatched, 0
	for _, s := range b.running {
		if s.uncached > 0 {
			now := min(s.uncached, left)
			s.uncached -= now
			left -= now
			computed += now
			if s.uncached == 0 {
				b.cache.add(s.blocks, b.settings.CacheBlocks)
			}
		}
	}
	ms := b.settings.StepMS + b.settings.StepPerSeqMS*float64(len(b.running)) + b.settings.PrefillUS*float64(computed)/1000
	return time.Duration(ms * b.settings.Slow * float64(time.Millisecond))
}

// finish gives a token to each request whose prompt is computed.
func (b *batch) finish() {
	kept := b.running[:0]
	for _, s := range b.running {
		if s.uncached == 0 {
			s.tokens <- s.made
			s.made++
		}
		if s.made == s.wanted {
			close(s.tokens)
		} else {
			kept = append(kept, s)
		}
	}
	b.running = kept
}

// drop removes the requests whose clients are gone.
func (b *batch) drop() {
	for _, of := range []*[]*sequence{&b.waiting, &b.running} {
		kept := make([]*sequence, 0, len(*of))
		for _, s := range *of {
			if s.ctx.Err() == nil {
				kept = append(kept, s)
			} else {
				close(s.tokens)
			}
		}
		*of = kept
	}
}

// load returns the number of waiting and running requests and the tokens that the running ones hold.
func (b *batch) load() (waiting, running, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.running {
		tokens += s.prompt + s.made
	}
	return len(b.waiting), len(b.running), tokens
}
