// Package ui is the dashboard: a page for people who look on at the analyzers, find out why a caller is closed, and act by hand.
//
//	GET /ui/            index.html, style sheets, ES modules: these files, the same for everybody. No token is needed
//	GET /ui/js/api.js   asks /v1/… of the same listener, with the token of the person in the header Authorization
//
// There is no build step: Handler makes the modules in assets small (tdewolff/minify) and compresses all files once, when it is made. The
// only code of others that a browser gets is uPlot, which draws the charts; its licence and checksums stand beside it, and uplot.sh
// fetches it anew.
//
// # Addresses that can be sent
//
//	#/                        the overview
//	#/caller/KIND:ID          a caller; the id is percent-encoded
//	#/rules, #/rules/A/B      the rules, and what differs between two versions
//	#/actions, #/actions/S    what people decided by hand; S is a state, such as in_force
//	#token=TOKEN&to=/rules    the token moves into sessionStorage, and out of the address, before anything else happens
//
// A browser sends no fragment to a server. So neither tokens nor ids are in the logs of proxies. Its history may keep the address of a
// link, so a token that lasts is better pasted into the form; the links that the demo prints work once.
//
// # Modules
//
//	main ──▶ token, status, eventstream ──▶ closures       what is known; each follows the API on its own
//	  └────▶ overview, callerpage, rulespage, actionspage   pages: element, start, keys. A page ends with its signal
//	             └──▶ chart, closedlist, virtuallist, windowchart, actiondialog, …
//
// # Chosen input
//
// Callers choose their ids, and people write reasons. The page makes text nodes of all of them, and never markup; characters that
// change the direction of text, or that nobody sees, are written as escapes. The Content-Security-Policy lets the page load and run
// nothing but these files, and send nothing but to its own server. 100,000 closures are 100,000 small objects; of these only the
// lines that can be seen are elements.
package ui
