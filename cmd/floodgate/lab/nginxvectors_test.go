//go:build lab

package lab

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// tellsStories is a location of nginx that plays a story of testdata/feed with floodgate.lua. It answers with what the gate says at each
// step: of an ask the answer, of a held the number, and otherwise nothing.
const tellsStories = `
lua_shared_dict story 1m;
server {
    listen %LISTEN%;
    client_body_buffer_size 1m;
    location / { return 200; }
    location = /story {
        content_by_lua_block {
            local floodgate, cjson, dict = require "floodgate", require "cjson", ngx.shared.story
            ngx.req.read_body()
            local story, said = cjson.decode(ngx.req.get_body_data()), {}
            dict:flush_all()
            dict:flush_expired()
            local gate, follower = floodgate.Gate(dict, story.policy), floodgate.Follower(dict, function() end, function(f, ...) f(...) end)
            for i, step in ipairs(story.steps) do
                local now, answer = step.now, {}
                if step.connect then follower.started = false end
                for _, line in ipairs(step.lines or {}) do follower:line(line, now, now) end
                if step.ask then
                    local keys = {}
                    for _, c in ipairs(step.ask) do
                        local id = c[3] and ngx.decode_base64(c[2]) or c[2]
                        id = c[1] == "ip" and floodgate.address(id, 64) or id
                        if id ~= "" then keys[#keys + 1] = c[1] .. ":" .. floodgate.counted(id) end
                    end
                    local v = gate:check(keys, #keys, now, now) or {}
                    answer = { closed = v.closed, shadow = v.shadow and not v.closed, stale = v.stale }
                    if v.closed then
                        answer.rule = v.rule
                        answer.retry_after, answer.ratelimit, answer.ratelimit_policy = floodgate.fields(v, now)
                        answer.retry_after = tonumber(answer.retry_after)
                    end
                elseif step.held then
                    follower:expire(now)
                    answer = { held = follower.held }
                end
                said[i] = answer
            end
            ngx.say(cjson.encode(said))
        }
    }
}
`

// TestTheGateInNginxTellsTheStories of testdata/feed as every gate does.
func TestTheGateInNginxTellsTheStories(t *testing.T) {
	testenv.Program(t, "nginx")
	paths, err := filepath.Glob("../../../testdata/feed/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d stories, %v", len(paths), err)
	}
	port := freePort(t)
	url := nginxWithLua(t, port, 1, strings.ReplaceAll(tellsStories, "%LISTEN%", "127.0.0.1:"+port)).url
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var story struct {
				Steps []struct {
					Want map[string]any
					Held *float64
				}
			}
			if err := json.Unmarshal(text, &story); err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(url+"story", "application/json", strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var answers []map[string]any
			if err := json.Unmarshal(said, &answers); err != nil || len(answers) != len(story.Steps) {
				t.Fatalf("got status %d and %s, %v", resp.StatusCode, said, err)
			}
			for i, step := range story.Steps {
				got, want := answers[i], step.Want
				for name, value := range got {
					if value == false || value == "" {
						delete(got, name)
					}
				}
				if step.Held != nil {
					want = map[string]any{"held": *step.Held}
				}
				if (want != nil || step.Held != nil) && !reflect.DeepEqual(got, want) {
					t.Errorf("step %d: got %v, want %v", i+1, got, want)
				}
			}
		})
	}
}
