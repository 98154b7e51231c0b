package floods

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Kind says whose request it is. No log has it.
type Kind string

// The kinds.
const (
	Person  Kind = "person"  // a page that a person looks at
	Git     Kind = "git"     // git over HTTP, by a person's computer
	Feed    Kind = "feed"    // an Atom feed, by a person's reader
	Crawler Kind = "crawler" // a page that a crawler takes
)

// Request is a request of a flood.
type Request struct {
	At                  time.Time
	Addr                netip.Addr
	Provider            uint32 // the number (ASN) of the provider that has the address
	Kind                Kind
	Expensive           bool // the page is one of those whose capacity is scarce
	Method, Path, Agent string
	User                string // "-" if nobody is logged in
	Status              int
}

// Line returns the request as nginx logs it in its format combined, without an end of line.
func (r *Request) Line() string {
	return fmt.Sprintf(`%v - %s [%s] "%s %s HTTP/1.1" %d 4321 "-" "%s"`,
		r.Addr, r.User, r.At.Format("02/Jan/2006:15:04:05 -0700"), r.Method, r.Path, r.Status, r.Agent)
}

// Flood is what crawlers and people do. Whoever asks is in a /24, with at most 254 addresses.
type Flood struct {
	Seed         uint64
	Start        time.Time
	Capacity     float64       // requests a second that the expensive pages bear
	Load         float64       // what crawlers ask for together, in capacities
	Quiet, Lasts time.Duration // before the flood, and of it; it is quiet for a minute after it

	People, Homes int // people, and their networks
	Office        int // so many of them are behind one address

	Crawlers, Networks, Providers int // addresses of crawlers, their networks, and who has these
}

// Crawl returns the flood of an issue of today: 20,000 addresses in 200 networks of 30 providers ask for five times the capacity.
func Crawl(seed uint64) Flood {
	return Flood{
		Seed: seed, Start: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC),
		Capacity: 100, Load: 5, Quiet: time.Minute, Lasts: 2 * time.Minute,
		People: 500, Homes: 400, Crawlers: 20_000, Networks: 200, Providers: 30,
	}
}

// Spread returns the same flood from 400 networks.
func Spread(seed uint64) Flood {
	f := Crawl(seed)
	f.Networks = 400
	return f
}

// Subnets returns a flood from 50 networks, as in the evaluation of Memento (arXiv 1810.02899).
func Subnets(seed uint64) Flood {
	f := Crawl(seed)
	f.Crawlers, f.Networks = 10_000, 50
	return f
}

// Strangers returns a flood from 10,000 networks that have nothing in common. No address asks twice.
func Strangers(seed uint64) Flood {
	f := Crawl(seed)
	f.Crawlers, f.Networks, f.Providers = 10_000, 10_000, 3000
	f.Lasts = 19 * time.Second
	return f
}

// Scrapers returns a flood from 20 addresses that have nothing in common: what limits for each address are made for.
func Scrapers(seed uint64) Flood {
	f := Crawl(seed)
	f.Crawlers, f.Networks, f.Providers = 20, 20, 20
	return f
}

// Requests returns all requests in order of time.
func (f *Flood) Requests() []Request {
	chance := func(i int) *rand.Rand { return rand.New(rand.NewPCG(f.Seed, uint64(i))) } //nolint:gosec // the same log from the same seed
	all := f.crawl(chance(0))
	for i := range f.People {
		all = append(all, f.person(i, chance(i+1))...)
	}
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Or(a.At.Compare(b.At), a.Addr.Compare(b.Addr)) })
	return all
}

func (f *Flood) crawl(r *rand.Rand) (all []Request) {
	var turns []int // each crawler asks once before one asks again
	for at := f.Quiet; ; {
		at += gap(r, time.Duration(float64(time.Second)/(f.Load*f.Capacity)))
		if at >= f.Quiet+f.Lasts {
			return all
		}
		if len(turns) == 0 {
			turns = r.Perm(f.Crawlers)
		}
		network := turns[0] % f.Networks
		all = append(all, Request{
			At: f.Start.Add(at), Addr: address(241, network, turns[0]/f.Networks), Provider: uint32(4_200_001_000 + network%f.Providers),
			Kind: Crawler, Expensive: true, Method: "GET", Path: expensive(r), Agent: browser(r), User: "-", Status: found(r, 5),
		})
		turns = turns[1:]
	}
}

// person returns the requests of a person. Some have a feed reader, and some a computer that fetches. All read, and go away for a time.
func (f *Flood) person(i int, r *rand.Rand) (all []Request) {
	home, host := i%f.Homes, i/f.Homes
	if i < f.Office {
		home, host = 0, 0
	}
	like := Request{Addr: address(240, home, host), Provider: uint32(4_200_000_000 + home%40), User: "-", Agent: browser(r)}
	if i%3 == 0 {
		like.User = fmt.Sprintf("person%d", i)
	}
	end := f.Quiet + f.Lasts + time.Minute
	add := func(at time.Duration, x Request) {
		if at < 0 || at >= end {
			return
		}
		x.At, x.Addr, x.Provider, x.User = f.Start.Add(at), like.Addr, like.Provider, like.User
		x.Method, x.Agent, x.Status = cmp.Or(x.Method, "GET"), cmp.Or(x.Agent, like.Agent), cmp.Or(x.Status, 200)
		all = append(all, x)
	}
	for at := -10 * time.Minute; at < end; { // long before the log, so that it begins in the middle of what people do
		at += gap(r, 3*time.Minute)
		for until := at + gap(r, 3*time.Minute); at < until; at += gap(r, 8*time.Second) {
			x := Request{Kind: Person, Path: cheap(r), Status: found(r, 2)}
			if x.Expensive = r.IntN(10) < 4; x.Expensive {
				x.Path = expensive(r)
			}
			add(at, x)
		}
	}
	for at := gap(r, time.Minute); i%5 == 0 && at < end; at += gap(r, time.Minute) {
		repo := repository(r) + ".git"
		add(at, Request{Kind: Git, Path: repo + "/info/refs?service=git-upload-pack", Agent: git})
		add(at+300*time.Millisecond, Request{Kind: Git, Method: "POST", Path: repo + "/git-upload-pack", Agent: git})
	}
	for at := gap(r, 2*time.Minute); i%4 == 0 && at < end; at += gap(r, 2*time.Minute) {
		add(at, Request{Kind: Feed, Path: repository(r) + "/releases.atom", Agent: "FreshRSS/1.25.0 (Linux; https://freshrss.org)"})
	}
	return all
}

const git = "git/2.47.1"

// gap returns the time until the next of independent events, which come this often on average.
func gap(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// address returns an address of the n-th /24 of 240.0.0.0/8, or of another first byte.
func address(first byte, n, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{first, byte(n >> 8), byte(n), byte(host + 1)})
}

// found returns the status of a page, which so many of a hundred links lead to in vain.
func found(r *rand.Rand, broken int) int {
	if r.IntN(100) < broken {
		return 404
	}
	return 200
}

func repository(r *rand.Rand) string { return fmt.Sprintf("/team%d/repo%d", r.IntN(40), r.IntN(12)) }

// expensive returns the path of a page that a forge computes at length. There are so many that no cache holds them.
func expensive(r *rand.Rand) string {
	repo, file := repository(r), r.IntN(500)
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("%s/commits/branch/main/src/file%d.go", repo, file)
	case 1:
		return fmt.Sprintf("%s/blame/commit/%08x/src/file%d.go", repo, r.Uint32(), file)
	case 2:
		return fmt.Sprintf("%s/compare/%08x...%08x", repo, r.Uint32(), r.Uint32())
	default:
		return fmt.Sprintf("%s/search?q=word%d", repo, file)
	}
}

// cheap returns the path of any other page.
func cheap(r *rand.Rand) string {
	switch repo := repository(r); r.IntN(4) {
	case 0:
		return "/"
	case 1:
		return repo
	case 2:
		return fmt.Sprintf("%s/issues/%d", repo, r.IntN(300))
	default:
		return fmt.Sprintf("%s/src/branch/main/src/file%d.go", repo, r.IntN(500))
	}
}

// browser returns the user agent of a browser. Crawlers of today send one, too.
func browser(r *rand.Rand) string {
	return fmt.Sprintf("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", 120+r.IntN(20))
}
