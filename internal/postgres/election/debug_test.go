package election

import "testing"

func TestDebug(t *testing.T) {
	s := run(*seed, false)
	for _, n := range s.w.nodes {
		d := Decide(n.config, s.w.input(n))
		t.Logf("%s running %v frozen %v %+v\n  obs %+v\n hold %+v\n  => %T %s", n.name, n.running, n.frozen(), n.pg.Server, n.obs, n.hold, d.Action, d.Reason)
	}
}
