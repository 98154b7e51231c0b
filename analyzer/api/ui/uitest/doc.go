// Command uitest makes the README's pictures of the dashboard, and its tests use the dashboard as people do: in Chromium, without a
// window, against real analyzers.
//
//	go run . [DIRECTORY]         writes dashboard.png, dashboard-caller.png and dashboard-narrow.png; needs Debian's chromium
//	go test ./...                the tests; without Chromium they are skipped, and say so
//	go test -run TestBars -v     the figures: first paint, live data, a close on the screen, and 100,000 closures
//
// It is a module of its own, so that those who use floodgate do not inherit chromedp. The tests start what people start: an
// embedded broker, the program floodgate as analyzers, and a server with a gate that sends requests.
package main
