package fold

import (
	"maps"
	"testing"
)

// controlStories are what people decide, and what follows. Closures that are told of are those that gates learn of; a caller that a
// person opens is told as open since it closed, so that gates add no delay.
func controlStories() map[string]controlStory {
	stories := map[string]controlStory{
		"closed by hand, for its time": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close x 60", "_control x closed 1m0s"}, {"at 59 x 1", "-"}, {"at 60 x 9", "-"}, {"at 61 x 1", "a x closed 2m0s"},
		}},
		"closed by hand, counted by no rule": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close tenant:t 60", "_control t closed 1m0s"}, {"undo 1", "_control t opened 1s"},
		}},
		"closed before anything was folded": {[]string{tenAMinute}, [][2]string{
			{"close x 60", "_control x closed 1m0s"}, {"at 30 x 1", "-"}, {"at 61 x 1", "-"},
		}},
		"closed by hand, while a rule closes it too": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s"}, {"close x 90", "_control x closed 1m30s"}, {"undo 1", "_control x opened 1s"},
		}},
		"the newest of close and open wins, and the older comes back": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close x 90", "_control x closed 1m30s"}, {"open x 30", "_control x opened 1s"},
			{"at 20 x 5", "-"}, {"close x 25", "_control x closed 25s"}, {"at 26 y 1", "-"},
			{"at 30 y 1", "_control x closed 1m30s"}, {"at 91 y 1", "-"},
		}},
		"two closes: the one that ends last": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close x 60", "_control x closed 1m0s"}, {"close x 50", "-"}, {"close x 90", "_control x moved 1m30s"},
			{"undo 3", "_control x moved 1m0s"}, {"undo 1", "_control x moved 50s"}, {"undo 2", "_control x opened 1s"},
		}},
		"a close that is undone twice": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close x 60", "_control x closed 1m0s"}, {"undo 1", "_control x opened 1s"}, {"undo 1", "-"}, {"undo 2", "-"},
		}},
		"a limit of one": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 1", "-"}, {"limit y a 1 600", "-"}, {"at 2 y 1", "a y closed 1m0s"}, {"at 3 x 1", "-"},
		}},
		"an undo of what is not there": {[]string{tenAMinute}, [][2]string{{"undo 7", "-"}, {"at 1 x 10", "a x closed 1m0s"}}},
		"open, under both rules that close (crowdsec 3547, 3656)": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 30", "a x closed 1m0s, b x closed 1h0m0s"}, {"open x 600", "a x opened 1s, b x opened 1s"},
			{"at 2 x 100", "-"}, {"at 300 x 100", "-"}, {"at 600 x 1", "b x closed 1h0m0s"},
		}},
		"open, under one rule of two": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 30", "a x closed 1m0s, b x closed 1h0m0s"}, {"open x 600 a", "a x opened 1s"}, {"at 2 x 1", "-"},
			{"undo 1", "a x closed 1m0s"},
		}},
		"open does not undo a close by hand under another rule": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"close x 60", "_control x closed 1m0s"}, {"open x 60 a", "-"}, {"open x 60 _control", "_control x opened 1s"},
		}},
		"open of a caller that comes later": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 1", "-"}, {"open x 100", "-"}, {"at 2 x 50", "-"}, {"at 61 x 9", "-"}, {"at 100 x 1", "a x closed 2m0s"},
		}},
		"open ends before the entry of its last moment is counted": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 3", "-"}, {"open x 30", "-"}, {"at 2 x 20", "-"}, {"at 29 x 1", "-"}, {"at 30 y 1", "a x closed 1m0s"},
		}},
		"a limit up opens, and keeps the counts": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s"}, {"limit x a 20 600", "a x opened 1s"}, {"at 2 x 9", "-"}, {"at 3 x 1", "a x closed 1m0s"},
		}},
		"a limit up in the middle of a month (envoyproxy/ratelimit 185)": {[]string{aMonth}, [][2]string{
			{"at 86400 x 1000", "a x closed 744h0m0s"}, {"limit x a 1500 2000000", "a x opened 24h0m0s"}, {"at 86401 x 499", "-"},
			{"at 86402 x 1", "a x closed 744h0m0s"}, {"limit x a 2000 2000000", "a x opened 24h0m2s"},
			{"at 2000000 y 1", "a x closed 744h0m0s"},
		}},
		"a bucket's limit up while it is closed (letsencrypt/boulder 8785)": {[]string{tenBucket}, [][2]string{
			{"at 1 x 13", "a x closed 25s"}, {"limit x a 20 600", "a x moved 22s"}, {"limit x a 1000 600", "a x moved 19.06s"},
			{"limit x a 10 600", "a x moved 25s"}, {"at 24 y 1", "-"}, {"limit x a 20 600", "a x opened 1s"},
		}},
		"a limit down closes at once, and opens when it ends": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 7", "-"}, {"limit x a 5 20", "a x closed 1m0s"}, {"at 19 x 1", "-"}, {"at 20 y 1", "a x opened 20s"}, {"at 21 x 2", "a x closed 1m0s"},
		}},
		"a limit is of one rule": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 7", "-"}, {"limit x b 7 600", "b x closed 1h0m0s"}, {"at 2 x 3", "a x closed 1m0s"},
		}},
		"a limit goes before an override, and the newest of two counts": {
			[]string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, overrides: {x: unlimited, z: 5}}"}, [][2]string{
				{"at 1 x 20", "-"}, {"at 1 z 4", "-"}, {"limit x a 15 30", "a x closed 1m0s"}, {"limit z a 3 600", "a z closed 1m0s"},
				{"limit x a 30 20", "a x opened 1s"}, {"at 20 y 1", "a x closed 1m0s"}, {"at 30 y 1", "a x opened 30s"},
			},
		},
		"open after a limit, and back": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 7", "-"}, {"limit x a 5 50", "a x closed 1m0s"}, {"open x 30", "a x opened 1s"}, {"at 30 y 1", "a x closed 1m0s"},
			{"at 50 y 1", "a x opened 50s"},
		}},
		"reset": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 30", "a x closed 1m0s, b x closed 1h0m0s"}, {"reset x a", "a x opened 1s"}, {"at 2 x 9", "-"},
			{"at 3 x 1", "a x closed 1m0s"}, {"reset x", "a x opened 3s, b x opened 1s"}, {"at 4 x 9", "-"},
		}},
		"reset of one who is not there, or not closed": {[]string{tenAMinute}, [][2]string{
			{"at 1 y 9", "-"}, {"reset x", "-"}, {"reset y", "-"}, {"reset tenant:t", "-"}, {"at 2 y 9", "-"}, {"at 3 y 1", "a y closed 1m0s"},
		}},
		"reset leaves what was closed by hand": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s"}, {"close x 60", "_control x closed 1m0s"}, {"reset x", "a x opened 1s"},
			{"undo 3", "-"}, {"at 2 x 1", "-"}, {"undo 1", "_control x opened 1s"},
		}},
		"reset ends escalation": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"}, {"at 31 x 10", "a x closed 1m11s"}, {"reset x", "a x opened 31s"}, {"at 32 x 10", "a x closed 52s"},
		}},
		"a close that was opened by hand is no step of escalation": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"}, {"open x 11", "a x opened 1s"}, {"at 12 x 10", "a x closed 32s"},
			{"at 41 x 10", "a x closed 1m21s"}, {"limit x a 11 60", "a x opened 41s"}, {"at 52 x 11", "a x closed 1m32s"},
		}},
		"a close that was opened by hand does not make escalation remember longer": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"}, {"at 500 x 10", "a x closed 9m0s"}, {"open x 510", "a x opened 8m20s"},
			{"at 622 x 10", "a x closed 10m42s"}, // ten minutes after the first one ended, and two after the other
		}},
		"what a reset forgot does not come back": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"}, {"at 31 x 10", "a x closed 1m11s"}, {"reset x", "a x opened 31s"}, {"at 32 x 10", "a x closed 52s"},
			{"open x 60", "a x opened 32s"}, {"at 61 x 10", "a x closed 1m21s"}, {"at 91 x 10", "a x closed 2m11s"},
		}},
		"a limit by hand undoes no close that has ended, also when rules change under it": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"}, {"at 25 y 1", "-"}, {"limit x a 100 40", "-"},
			{"rules " + tenEscalated[:len(tenEscalated)-1] + ", warn: [0.5]}", "-"},
			{"at 41 x 10", "a x closed 1m21s"},
		}},
	}
	maps.Copy(stories, modeStories())
	return stories
}

// modeStories are those of shadow modes, and of rules that change.
func modeStories() map[string]controlStory {
	return map[string]controlStory{
		"a rule in shadow, and back": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 30", "a x closed 1m0s, b x closed 1h0m0s"}, {"mode 30 a", "a x moved 1m0s shadow"}, {"at 2 y 10", "a y closed 1m0s shadow"},
			{"at 30 y 1", "a x moved 1m0s, a y moved 1m0s"},
		}},
		"the emergency brake": {[]string{tenAMinute, threeAnHour}, [][2]string{
			{"at 1 x 30", "a x closed 1m0s, b x closed 1h0m0s"}, {"close z 600", "_control z closed 10m0s"},
			{"mode 300", "_control z moved 10m0s shadow, a x moved 1m0s shadow, b x moved 1h0m0s shadow"},
			{"mode 200 a", "-"}, {"close bad 600", "_control bad closed 10m0s"},
			{"undo 2", "_control z moved 10m0s, b x moved 1h0m0s"}, {"undo 3", "a x moved 1m0s"},
		}},
		"shadow of what was closed by hand": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s"}, {"close z 600", "_control z closed 10m0s"}, {"mode 30 _control", "_control z moved 10m0s shadow"},
			{"close z 500", "_control z moved 10m0s"}, {"undo 3", "_control z moved 10m0s shadow"}, {"at 30 y 1", "_control z moved 10m0s"},
		}},
		"shadow of a rule that is in shadow": {[]string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, mode: shadow}"}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s shadow"}, {"mode 30", "-"}, {"at 31 x 1", "-"},
		}},
		"a record about a rule that comes later": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 5", "-"}, {"limit x b 3 600", "-"}, {"mode 600 b", "-"}, {"open x 500 c", "-"}, {"at 2 x 4", "-"},
			{"rules " + tenAMinute + "\n" + threeAnHour, "-"}, {"at 3 x 3", "a x closed 1m0s, b x closed 1h0m0s shadow"},
			{"rules " + threeAnHour, "a x opened 3s"}, {"undo 2", "b x moved 1h0m0s"},
		}},
		"rules that change under records in force": {[]string{tenAMinute}, [][2]string{
			{"at 1 x 10", "a x closed 1m0s"}, {"at 1 y 10", "a y closed 1m0s"}, {"limit x a 30 600", "a x opened 1s"}, {"close z 60", "_control z closed 1m0s"},
			{"mode 600 a", "a y moved 1m0s shadow"},
			{"rules {name: a, callers: key, limit: 5, window: 1m, algorithm: fixed}", "-"}, {"at 2 x 19", "-"}, {"at 3 x 1", "a x closed 1m0s shadow"},
			{"undo 3", "a x moved 1m0s, a y moved 1m0s"}, {"undo 1", "-"}, {"at 70 x 5", "a x closed 2m0s"},
		}},
		"rules that are rolled back open whom they allow, and that was no step": {[]string{tenEscalated}, [][2]string{
			{"at 1 x 10", "a x closed 21s"},
			{"rules {name: a, callers: key, limit: 2, window: 10s, algorithm: fixed, close_for: 20s, escalate: {factor: 2, max: 1h, forget: 10m}}", "-"},
			{"at 31 x 5", "a x closed 1m11s"}, {"at 32 y 5", "a y closed 52s"},
			{"rules " + tenEscalated, "a x opened 32s, a y opened 32s"},
			{"at 52 x 10", "a x closed 1m32s"}, {"at 53 y 10", "a y closed 1m13s"}, {"at 101 y 10", "a y closed 2m21s"},
		}},
	}
}

func TestControlStories(t *testing.T) {
	for name, s := range controlStories() {
		t.Run(name, s.run)
	}
}
