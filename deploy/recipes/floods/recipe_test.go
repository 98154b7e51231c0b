package floods

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// sites says what the pages of each recipe are called: those that are expensive, and any other.
var sites = map[string]func(x *Request, i int){
	"forge": func(*Request, int) {},
	"wiki": func(x *Request, i int) {
		x.Path = fmt.Sprintf("/wiki/Page_%d", i%5000)
		if x.Expensive {
			x.Path = fmt.Sprintf("/w/index.php?title=Page_%d&action=history", i%5000)
		}
	},
	"api": func(x *Request, i int) {
		x.Path = fmt.Sprintf("/v1/items/%d", i)
		if x.Expensive {
			x.Path = fmt.Sprintf("/v1/search?q=%d", i)
		}
	},
}

// recipe returns what a recipe refuses when it is no longer in mode shadow.
func recipe(t *testing.T, name string, requests []Request) refuses {
	t.Helper()
	rules := readFile(t, "../"+name+"/rules.yaml")
	if strings.Count(rules, "mode: shadow") != 1 {
		t.Fatalf("%s: got %s, want one rule, in mode shadow", name, rules)
	}
	return replayed(t, requests, strings.ReplaceAll(rules, "mode: shadow", "mode: enforce"), readFile(t, "../"+name+"/mapping.yaml"))
}

// TestRecipesHoldAFlood: the expensive pages get what they bear within 5 s. Git, feeds and other pages are free, and nobody waits while
// it is quiet. Of the requests of people, at most one in 200 is refused.
func TestRecipesHoldAFlood(t *testing.T) {
	for name, site := range sites {
		for flood, f := range map[string]Flood{"200 networks": Crawl(1), "50 networks": Subnets(1)} {
			requests := f.Requests()
			for i := range requests {
				site(&requests[i], i)
			}
			refused := recipe(t, name, requests)
			free := 0
			got := f.Judge(requests, func(x *Request) bool {
				no := refused(x)
				if no && !x.Expensive {
					free++
				}
				return no
			})
			t.Logf("%s, %s: %+v", name, flood, got)
			if got.Load > 1.15 || got.Late < 0 || got.Late > 5*time.Second || got.Load < 0.9 { // four seconds of the flood are 0.13 of the load
				t.Errorf("%s, %s: got a load of %.2f, high for %v, want 0.9 to 1.15, and 5 s at most", name, flood, got.Load, got.Late)
			}
			if free > 0 || got.GitFeeds.Refused > 0 || got.Before.Refused > 0 || got.People.Refused*200 > got.People.Of {
				t.Errorf("%s, %s: got %d free requests refused, %+v, want none, and one in 200 of people at most", name, flood, free, got)
			}
		}
	}
}

// TestRoutesAreThoseOfNginx: nginx asks about a request if and only if the mapping says that it is of the route that is counted. It asks by
// $request_uri, because $uri is another one in the question.
func TestRoutesAreThoseOfNginx(t *testing.T) {
	f := Crawl(1)
	for _, recipe := range []struct{ name, file, counted string }{
		{"forge", "nginx.conf", "GET /{owner}/{repo}/{page...}"}, {"wiki", "README.md", "GET /w/index.php"}, {"api", "README.md", "GET /v1/search"},
	} {
		_, text, found := strings.Cut(readFile(t, "../"+recipe.name+"/"+recipe.file), "map \"$request_method $request_uri\" $floodgate_route {\n")
		routes := regexp.MustCompile(`(?m)^    "~(.*)" "(.*)";$`).FindAllStringSubmatch(text, -1)
		if !found || len(routes) == 0 {
			t.Fatalf("%s: got no map from $request_uri", recipe.name)
		}
		nginx := func(request string) string {
			for _, route := range routes {
				if regexp.MustCompile(route[1]).MatchString(request) {
					return route[2]
				}
			}
			return ""
		}
		mapping, err := ingest.LoadMapping("../"+recipe.name+"/mapping.yaml", "", schemas.IDs{})
		if err != nil {
			t.Fatal(err)
		}
		requests := f.Requests()[:5000]
		for i := range requests {
			sites[recipe.name](&requests[i], i)
		}
		for _, path := range []string{
			"/", "/a", "/a/b", "/a/b/", "/a/b/releases", "/a/b/issues", "/a/b/issues/1", "/a/b/pulls/", "/a/b/info", "/a/b/srcs", "/a/b/src", "/a/b/src/",
			"/a/b.git/info/lfs/objects/batch", "/user/login", "/assets/a/b", "/login?next=/a/b/", "/a/b/issues?page=2", "/a/b/blame?x",
			"/w/index.php", "/w/index.phps", "/w/index.php/x", "/v1/search", "/v1/searches?q", "/v1/search/x",
		} {
			requests = append(requests, Request{At: f.Start, Addr: address(240, 0, 0), User: "-", Method: "GET", Path: path, Status: 200})
		}
		seen := map[string]int{}
		var line ingest.Line
		scanner := mapping.Scanner()
		for i := range requests {
			x := &requests[i]
			if reason := scanner.Scan([]byte(x.Line()), &line); reason != ingest.OK {
				t.Fatalf("%s: %v", x.Line(), reason)
			}
			want := ""
			if line.Resource == recipe.counted {
				want = recipe.counted
			}
			if got := nginx(x.Method + " " + x.Path); got != want {
				t.Errorf("%s, %s %s: got %q of nginx, and %q of the mapping", recipe.name, x.Method, x.Path, got, line.Resource)
			}
			if seen[want]++; x.Kind != "" && x.Expensive != (want == recipe.counted) {
				t.Errorf("%s, %s %s: got route %q, want it if the page is expensive", recipe.name, x.Method, x.Path, line.Resource)
			}
		}
		if seen[recipe.counted] < 1000 || seen[""] < 1000 {
			t.Errorf("%s: got %v, want requests of both kinds", recipe.name, seen)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
