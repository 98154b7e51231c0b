package gate

import (
	"cmp"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate/internal/keyhash"
	"github.com/509da70d/floodgate/schemas"
)

// Mode says what a Set does with closed callers.
type Mode uint32

// Modes. The zero value enforces.
const (
	Enforce Mode = iota // closed callers are refused
	Shadow              // closed callers are admitted, and their verdicts say Shadow
	Off                 // as if nothing were closed
)

// String returns "enforce", "shadow", "off" or "unknown".
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Shadow:
		return "shadow"
	case Off:
		return "off"
	}
	return "unknown"
}

// Defaults of Options.
const (
	DefaultMaxClosed  = 1 << 20
	DefaultStaleAfter = 3 * time.Second // three heartbeats
	DefaultMaxJitter  = 10 * time.Second
)

// Options configure a Set. The zero value is ready to use: it enforces, and closures stay while decisions are stale.
type Options struct {
	Mode       Mode
	Stale      Policy        // what holds while decisions are stale
	StaleAfter time.Duration // without a heartbeat; 0 is DefaultStaleAfter
	Local      Limiter       // decides while decisions are stale, under the policy Local only
	MaxClosed  int           // callers kept; beyond it new closures are dropped and counted. 0 is DefaultMaxClosed
	MaxJitter  time.Duration // a gate reopens at most this late after a closure of 10 s or more; 0 is DefaultMaxJitter, negative is none
	Logger     *slog.Logger  // for changes of state; nil is slog.Default()
	IDs        schemas.IDs   // how ids of callers are made; must be the same in all servers, sidecars and ingests
}

// Set is all the gates of a process. New makes one; the zero value is not usable. Every method may be called from any
// goroutine. Check and CheckAt, and Closed and ClosedAddr of its gates, never wait. Apply, Tick, Heartbeat, Partitions,
// Gate, SetMode and Status take turns on a lock.
type Set struct {
	view atomic.Pointer[table] // the table that readers see; nil while there is nothing to look up
	mode atomic.Uint32

	clock clock
	cells cells

	hash     keyhash.Key
	policy   Policy
	local    Limiter
	liveness liveness
	logger   *slog.Logger
	options  Options

	refused  atomic.Uint64 // callers beyond MaxCallers of one request
	refusals refusals

	mu     sync.Mutex // protects the fields below
	gates  map[string]*Gate
	kinds  []*Gate // by index
	writer writer
}

// New returns a Set in which nothing is closed. It does no I/O and starts no goroutine. It panics on the policy Local
// without a Limiter, and on IDs that schemas.IDs.Validate refuses.
func New(o Options) *Set {
	if err := o.IDs.Validate(); err != nil {
		panic("gate: " + err.Error())
	}
	if o.Stale == Local && o.Local == nil {
		panic("gate: the policy Local needs Options.Local")
	}
	o.StaleAfter = cmp.Or(o.StaleAfter, DefaultStaleAfter)
	o.MaxClosed = cmp.Or(o.MaxClosed, DefaultMaxClosed)
	o.MaxJitter = max(0, cmp.Or(o.MaxJitter, DefaultMaxJitter))
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Set{
		hash: keyhash.New(), policy: o.Stale, local: o.Local, logger: o.Logger, options: o,
		gates: make(map[string]*Gate),
	}
	s.liveness.start = time.Now()
	s.liveness.staleAfter = o.StaleAfter
	s.liveness.earliest.Store(math.MaxInt64)
	s.mode.Store(uint32(o.Mode))
	s.publish()
	return s
}

// IDs returns how ids of callers are made.
func (s *Set) IDs() schemas.IDs { return s.options.IDs }

// Mode returns what the Set does now.
func (s *Set) Mode() Mode { return Mode(s.mode.Load()) }

// SetMode is the kill switch. The next Check or Closed of every goroutine uses the new mode. Decisions are applied in every
// mode, so that the Set is up to date when the mode changes back.
func (s *Set) SetMode(m Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := Mode(s.mode.Swap(uint32(m))); old != m {
		s.logger.Info("gate mode changed", "from", old, "to", m)
	}
	s.publish()
}

// Gate returns the gate of a kind of caller, the same one each time. It takes a lock: call it once and keep the Gate. It
// panics on a kind that schemas.ValidateKind refuses, and on more than 256 kinds.
func (s *Set) Gate(kind string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.gate(kind)
	if err != nil {
		panic("gate: " + err.Error())
	}
	return g
}

// gate returns the gate of a kind, and makes it if there is none. The caller holds mu.
func (s *Set) gate(kind string) (*Gate, error) {
	if g := s.gates[kind]; g != nil {
		return g, nil
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return nil, err
	}
	if len(s.kinds) > math.MaxUint8 {
		return nil, errKinds
	}
	g := &Gate{
		view: &s.view, set: s, kind: kind, index: uint8(len(s.kinds)),
		hash: s.hash.For(kind), ip: kind == schemas.KindIP, net: kind == schemas.KindNet, network: addrMask(s.options.IDs.Prefix()),
		secret: s.options.IDs.Hash.Kind(kind),
	}
	if g.net {
		g.network = netMask(s.options.IDs)
	}
	g.special = g.ip || g.net || g.secret != nil
	s.gates[kind] = g
	s.kinds = append(s.kinds, g)
	return g, nil
}

// publish shows readers the table, or nil if there is nothing to look up. The caller is New or holds mu.
func (s *Set) publish() {
	t := s.writer.table
	switch {
	case s.Mode() == Off:
		t = nil
	case s.watchful() && t == nil:
		s.rebuild(0) // an empty table: readers must check for staleness
		t = s.writer.table
	case !s.watchful() && t != nil && t.live == 0:
		t = nil
	}
	if s.view.Load() != t {
		s.view.Store(t)
	}
}
