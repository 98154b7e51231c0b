package floods

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheFloodIsWhatItSays: each flood has its networks and addresses, its load, and people who ask before, during and after it. The same
// seed makes the same log, and another seed another one.
func TestTheFloodIsWhatItSays(t *testing.T) {
	for name, f := range map[string]Flood{"crawl": Crawl(1), "subnets": Subnets(1), "strangers": Strangers(1), "scrapers": Scrapers(1)} {
		requests := f.Requests()
		networks, addresses, providers := map[netip.Prefix]bool{}, map[netip.Addr]int{}, map[uint32]bool{}
		people, kinds := map[netip.Prefix]bool{}, map[Kind]int{}
		for _, x := range requests {
			kinds[x.Kind]++
			network := netip.PrefixFrom(x.Addr, 24).Masked()
			if x.Kind != Crawler {
				people[network] = true
				continue
			}
			networks[network], providers[x.Provider] = true, true
			addresses[x.Addr]++
		}
		crawlers := f.Load * f.Capacity * f.Lasts.Seconds()
		if got := float64(kinds[Crawler]); got < 0.97*crawlers || got > 1.03*crawlers {
			t.Errorf("%s: got %v requests of crawlers, want %v", name, got, crawlers)
		}
		each := kinds[Crawler]/f.Crawlers + 1
		for addr, n := range addresses {
			if n > each {
				t.Errorf("%s: got %d requests of %v, want %d at most", name, n, addr, each)
			}
		}
		all := min(f.Networks, kinds[Crawler])
		if len(networks) != all || len(addresses) != min(f.Crawlers, kinds[Crawler]) || len(providers) < f.Providers*9/10 {
			t.Errorf("%s: got %d networks, %d addresses, %d providers, want %d, %d, %d", name, len(networks), len(addresses), len(providers), all, f.Crawlers, f.Providers)
		}
		if len(people) > f.Homes || len(people) < f.Homes*8/10 || kinds[Person] < 5*kinds[Git] || kinds[Git] < kinds[Feed] || kinds[Feed] == 0 {
			t.Errorf("%s: got people in %d networks, and %v, want %d networks, and people, git and feeds", name, len(people), kinds, f.Homes)
		}
		again, other := f.Requests(), f
		other.Seed++
		if !slices.Equal(again, requests) || slices.Equal(other.Requests(), requests) {
			t.Errorf("%s: got another log of the same seed, or the same log of another one", name)
		}
		if end := f.Quiet + f.Lasts + time.Minute; requests[len(requests)-1].At.Sub(f.Start) > end || requests[0].At.Before(f.Start) {
			t.Errorf("%s: got %v to %v, want %v from %v on", name, requests[0].At, requests[len(requests)-1].At, end, f.Start)
		}
	}
}

// TestALineIsAsNginxWritesIt: in the format combined, with the user's name.
func TestALineIsAsNginxWritesIt(t *testing.T) {
	f := Crawl(1)
	requests := f.Requests()
	i := slices.IndexFunc(requests, func(x Request) bool { return x.Kind == Git && x.User != "-" })
	const begin, end = `240.0.`, `.git/info/refs?service=git-upload-pack HTTP/1.1" 200 4321 "-" "git/2.47.1"`
	if line := requests[i].Line(); !strings.HasPrefix(line, begin) || !strings.HasSuffix(line, end) || !strings.Contains(line, ` - person`) || !strings.Contains(line, ` [05/Jan/2026:12:0`) {
		t.Errorf("got %s, want %s … %s", line, begin, end)
	}
}

// TestPeopleOfAnOfficeHaveOneAddress: so that a recipe can say what becomes of them.
func TestPeopleOfAnOfficeHaveOneAddress(t *testing.T) {
	f := Crawl(1)
	f.Office = 30
	office := Request{Addr: address(240, 0, 0)}
	users := map[string]bool{}
	for _, x := range f.Requests() {
		if x.Addr == office.Addr {
			users[x.User] = true
		}
	}
	if len(users) < 9 {
		t.Errorf("got %v at %v, want ten people who are logged in, and others", users, office.Addr)
	}
}

// TestResultsAreRight: of four seconds' worth of requests, each figure is what one counts by hand.
func TestResultsAreRight(t *testing.T) {
	f := Flood{Capacity: 1, Quiet: 2 * time.Second, Lasts: 20 * time.Second}
	var requests []Request
	add := func(second int, kind Kind, expensive bool, n int) {
		for range n {
			requests = append(requests, Request{At: f.Start.Add(time.Duration(second) * time.Second), Kind: kind, Expensive: expensive})
		}
	}
	add(0, Person, true, 1)  // before the flood
	add(2, Crawler, true, 9) // its first second
	add(3, Person, true, 4)
	add(4, Git, false, 2)
	add(21, Crawler, true, 5)
	add(30, Feed, false, 1) // after the flood
	add(31, Person, true, 4)
	for _, c := range []struct {
		name    string
		refused refuses
		want    Result
	}{
		{"nothing is refused", nothing, Result{18. / 20, Part{0, 1}, Part{0, 8}, Part{0, 3}, time.Second}},
		{"crawlers are refused", func(x *Request) bool { return x.Kind == Crawler }, Result{4. / 20, Part{0, 1}, Part{0, 8}, Part{0, 3}, 0}},
		{"all others are refused", func(x *Request) bool { return x.Kind != Crawler }, Result{14. / 20, Part{1, 1}, Part{8, 8}, Part{3, 3}, 0}},
	} {
		got := f.Judge(requests, c.refused)
		if load := got.Load - c.want.Load; load > 1e-9 || load < -1e-9 {
			t.Errorf("%s: got a load of %v, want %v", c.name, got.Load, c.want.Load)
		}
		if got.Load = c.want.Load; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	add(21, Crawler, true, 20)
	if got := f.Judge(requests, nothing); got.Late != -1 {
		t.Errorf("got %v until the load is at the capacity, want never", got.Late)
	}
}
