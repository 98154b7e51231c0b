package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query has the parameters of a request. The errors of its methods are problems.
type query url.Values

// parseQuery reads a query, and refuses parameters other than the known ones.
func parseQuery(text string, known []string) (query, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, wrong(http.StatusBadRequest, "query", text, "parameters, percent-encoded")
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return nil, badQuery(name, name, "one of the parameters "+strings.Join(known, ", "))
		}
	}
	return query(values), nil
}

// has reports whether the query has a parameter.
func (q query) has(name string) bool { return url.Values(q).Has(name) }

// optional returns a parameter that the query may have once.
func (q query) optional(name string) (text string, found bool, err error) {
	switch values := q[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, badQuery(name, strings.Join(values, ", "), "one value")
	}
}

// required returns a parameter that the query must have once.
func (q query) required(name string) (string, error) {
	text, found, err := q.optional(name)
	if err == nil && !found {
		err = badQuery(name, "", "one value")
	}
	return text, err
}

// number returns a parameter that is a number, or otherwise if it is missing.
func (q query) number(name string, otherwise, least, most int64) (int64, error) {
	text, found, err := q.optional(name)
	if err != nil || !found {
		return otherwise, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badQuery(name, text, "a number from "+integer(least)+" to "+integer(most))
	}
	return n, nil
}

// choice returns a parameter that is one of some words, or otherwise if it is missing.
func (q query) choice(name, otherwise string, words ...string) (string, error) {
	text, found, err := q.optional(name)
	if err != nil || !found {
		return otherwise, err
	}
	if !slices.Contains(words, text) {
		return "", badQuery(name, text, "one of "+strings.Join(words, ", "))
	}
	return text, nil
}

// integer writes an integer in digits.
func integer[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }
