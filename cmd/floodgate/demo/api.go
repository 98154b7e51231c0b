package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/ui"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
)

// anyPort is where the API of a dashboard listens, if the Config does not say it.
const anyPort = "127.0.0.1:0"

// apiServer is the demo's API, and where it listens.
type apiServer struct {
	server   *api.Server
	listener net.Listener
	links    *api.Links // to the dashboard; nil: the Config asks for none
	open     bool       // this machine may do everything without a token
}

// openAPI makes the API listen, with the dashboard, if the Config asks for one of them. Where the Config names an address, its own machine
// may do everything there without a token: a demo has nothing to protect.
func (d *installation) openAPI() error {
	if d.config.API == "" && !d.config.Dashboard {
		return nil
	}
	s := &apiServer{open: d.config.API != ""}
	c := api.Config{
		Address: cmp.Or(d.config.API, anyPort), LoopbackActs: s.open, Page: ui.Handler(), Logger: d.config.Logger, Version: "demo",
	}
	if d.config.Dashboard {
		s.links = new(api.Links)
		c.Links = s.links
	}
	apid.Limits(&c)
	var err error
	if s.server, err = api.New(c); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", c.Address); err != nil {
		return fmt.Errorf("--api-listen: %w", err)
	}
	d.api, d.config.API = s, s.listener.Addr().String()
	return nil
}

// invite prints the address of the API and a link to the dashboard, if the Config asks for them. After the link was used, it prints
// another one, because each tab has a session of its own.
func (s *apiServer) invite(view *view) {
	at := s.listener.Addr().String()
	if s.open {
		view.say("the API is at %s: this machine may do everything there, without a token", at)
	}
	if s.links == nil {
		return
	}
	show := func(text string) {
		if token, ok := s.links.New(); ok {
			view.link(text, "http://"+at+ui.Prefix+"#token="+token)
			return
		}
		view.say("the link was used, and there are no more: start the demo again for another one")
	}
	s.links.Opened = func() { show("the link was used; another one, for another tab") }
	show("the dashboard, by a link that works once")
}

// serveAPI serves the API until ctx ends.
func (d *installation) serveAPI(ctx context.Context, view *view) error {
	if d.api == nil {
		return nil
	}
	d.api.invite(view)
	life := apid.Life{
		Server: d.api.server, Analyzer: d.analyzer, Log: d.client, Names: schemas.DefaultTopicNames(), Partitions: d.config.Partitions,
		Follow: &kafkalink.FollowConfig{Brokers: d.broker.Addrs(), ClientID: "floodgate-api", Logger: d.config.Logger}, Logger: d.config.Logger,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.api.server.Serve(ctx, d.api.listener) })
	g.Go(func() error { return life.Run(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
