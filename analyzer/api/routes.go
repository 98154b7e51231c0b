package api

import (
	"net/http"

	"github.com/509da70d/floodgate/schemas"
)

// table returns all operations. schemas/openapi.yaml describes each.
func (s *Server) table() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{method: get, path: "/v1/openapi.yaml", role: RoleRead, alone: true, serve: getDescription},
		{method: get, path: "/v1/status", role: RoleRead, serve: s.getStatus},
		{method: get, path: "/v1/caller", role: RoleRead, params: []string{"caller"}, forward: true, serve: s.getCaller},
		{method: get, path: "/v1/explain", role: RoleRead, params: []string{"caller"}, forward: true, serve: s.getExplain},
		{
			method: get, path: "/v1/callers", role: RoleRead, forward: true, serve: s.getCallers,
			params: []string{"sort", "rule", "kind", "prefix", "min_share", "limit", "cursor", "partition"},
		},
		{method: get, path: "/v1/series", role: RoleRead, params: []string{"seconds", "partition"}, forward: true, serve: s.getSeries},
		{method: post, path: "/v1/try", role: RoleRead, forward: true, serve: s.postTry},
		{method: get, path: "/v1/decisions", role: RoleRead, params: []string{"caller", "rule", "kind", "mode", "prefix", "since", "limit", "cursor"}, serve: s.getDecisions},
		{method: get, path: "/v1/decisions/stream", role: RoleRead, params: []string{"rule", "kind", "mode", "prefix"}, lasts: true, serve: s.getStream},
		{method: get, path: "/v1/actions", role: RoleRead, params: []string{"caller", "action", "state", "limit", "cursor"}, serve: s.getActions},
		{method: get, path: "/v1/rules", role: RoleRead, params: []string{"version"}, serve: s.getRules},
		{method: get, path: "/v1/rules/versions", role: RoleRead, serve: s.getVersions},
		{method: get, path: "/v1/rules/diff", role: RoleRead, params: []string{"from", "to"}, serve: s.getDiff},
		{method: post, path: "/v1/rules/check", role: RoleRead, alone: true, serve: s.postRulesCheck},
		{method: post, path: "/v1/close", role: RoleOperate, serve: s.postClose},
		{method: post, path: "/v1/open", role: RoleOperate, serve: s.postOpen},
		{method: post, path: "/v1/limit", role: RoleOperate, serve: s.postLimit},
		{method: post, path: "/v1/reset", role: RoleOperate, serve: s.postReset},
		{method: post, path: "/v1/mode", role: RoleAdmin, serve: s.postMode},
		{method: post, path: "/v1/undo", role: RoleOperate, serve: s.postUndo},
	}
}

// getDescription serves schemas/openapi.yaml.
func getDescription(c *call) error {
	c.status = http.StatusOK
	c.w.Header().Set("Content-Type", "application/yaml")
	_, err := c.w.Write(schemas.OpenAPI())
	return err
}
