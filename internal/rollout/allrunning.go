package rollout

import "context"

// AllRunning reports whether the records of all dependants name the Version of object, which Fettle does not publish. If so, there is
// nothing to roll out and the contents need not be read. recorded is true if any dependant has a record, of whatever version.
func (e *Engine) AllRunning(ctx context.Context, owner Owner, policy Policy, object Object) (running, recorded bool, err error) {
	found, err := e.workloads.dependants(ctx, owner, policy, []Object{object})
	if err != nil {
		return false, false, err
	}
	running, recorded = owner.running(found, object)
	return running, recorded, nil
}

func (o Owner) running(workloads []*Workload, object Object) (running, recorded bool) {
	running = true
	for _, w := range workloads {
		hash, n := o.runs(w)
		recorded = recorded || n != nil
		same := n != nil && n.Version == object.Version && isHash(hash) && hash[:useDigits] == useOf(o.usesOf(w, []Object{object}))
		running = running && (same || w.deleting)
	}
	return running, recorded
}
