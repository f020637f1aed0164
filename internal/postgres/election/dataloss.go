package election

import "fmt"

// Where commits wait for nobody, a failover may lose the last rows. How many is bounded by [Config.MaximumLag], in bytes of the log:
//
//   - Who lacks more of what the last primary is known to have written, or may lack more, is not elected.
//   - After the last primary stopped in order it is known what is lacking: who lacks any of it leaves minutes for one that has it all.
//   - Data that hold more than that which the primary lacks are not undone.
//
// Only a person decides otherwise, for one instance at a time: the one that shall be, or is, the primary without that ([Config.AcceptDataLoss]). A wish
// for a primary is no such decision. What is lost then is kept on its volume. Where commits wait for standbys, R + W > N says what
// was acknowledged, and these rules ask for nothing.

// boundedByQuorum says that what was acknowledged is told by the settings of synchronous replication, and not by how much is lacking.
func (v *decider) boundedByQuorum() bool { return v.Synchronous > 0 && len(v.quorums()) > 0 }

// missingBytes returns how many bytes known to be written by the last primary are not here: known by the record, and by what that primary said
// last, as it can't renew the record while the API server is away. ok is false if that is not known.
func (v *decider) missingBytes() (bytes uint64, ok bool) {
	l := v.lease
	if p, ok := v.peer(l.Primary, 1); ok && p.Role == Primary && p.Position.Timeline == l.End.Timeline && p.Position.LSN > l.End.LSN && v.sameSystemID(p.SystemID) {
		l.End = p.Position
	}
	if v.recordLost() && !v.boundedByQuorum() && v.peersMissing() { // it may have been the last primary
		return 0, false
	}
	return l.missing(v.server.Position)
}

// excessiveLag says why too much would be lost if this instance became the primary; "" if that is not so, or was accepted. (13)
func (v *decider) excessiveLag() string {
	lack, known := v.missingBytes()
	switch {
	case v.AcceptDataLoss == v.Self.Name, known && (v.boundedByQuorum() || lack <= v.MaximumLag):
		return ""
	case !known:
		return "it is not known how much is missing here of what was written last: waits for the other instances" + v.consentAdvice(v.Self.Name)
	}
	return fmt.Sprintf("lacks %d bytes of what %s wrote last, and spec.failover.maximumLag is %d: waits for %s%s",
		lack, v.lease.Primary, v.MaximumLag, v.lease.Primary, v.consentAdvice(v.Self.Name))
}

// lagsTooFar says that a peer lacks too much to take the Lease: nobody leaves it to that one.
func (v *decider) lagsTooFar(p State) bool {
	lack, known := v.lease.missing(p.Position)
	return !v.boundedByQuorum() && known && lack > v.MaximumLag
}

// consentAdvice says what a person does to have that primary without what it lacks.
func (v *decider) consentAdvice(primary string) string {
	return "; to lose that for good, annotate the PostgreSQL with fettle.dev/accept-data-loss=" + primary
}

// lacksShutdownWAL says that the last primary stopped in order, and that some of what it wrote is not here. (13)
func (v *decider) lacksShutdownWAL() bool {
	lack, _ := v.lease.missing(v.server.Position)
	return v.lease.CleanShutdown && lack > 0 && !v.boundedByQuorum() && !v.wasLastPrimary() && v.AcceptDataLoss != v.Self.Name
}

// divergedBytes returns how many bytes of the log here the last primary's does not have; ok is false if that is not known.
func (v *decider) divergedBytes() (bytes uint64, ok bool) {
	p := v.server.Position
	lsn, ok := v.lease.sharedUpTo(p)
	for i := len(v.server.History) - 1; i >= 0 && !ok; i-- { // of a timeline that nobody else has
		lsn, ok = v.lease.sharedUpTo(Position(v.server.History[i]))
	}
	return p.LSN - min(lsn, p.LSN), ok
}

// protectDivergedData says that the data here hold too much that h lacks to be undone; nil if they may be. A log left by a crash is read first. (13)
func (v *decider) protectDivergedData(h string) *Decision {
	s := v.server
	bytes, known := v.divergedBytes()
	d := Decision{Action: Wait{}, ManualIntervention: true, NeedsDataLossConsent: true}
	switch unread := s.Role == Primary && !s.Exact; {
	case v.AcceptDataLoss == h, v.boundedByQuorum(), known && !unread && bytes <= v.MaximumLag:
		return nil
	case unread && s.Process == Down:
		d.Action, d.Reason = InspectWAL{}, "reads its log to the end, to know what it has that "+h+" lacks"+v.consentAdvice(h)
		d.ManualIntervention, d.NeedsDataLossConsent = v.in.Now >= s.ProcessSince+v.CatchUpWait, v.in.Now >= s.ProcessSince+v.CatchUpWait
	case !known:
		d.Reason = "has left the history of " + h + ", and it is not known how much it has that " + h + " lacks: it is left as it is" + v.consentAdvice(h)
	default:
		d.Reason = fmt.Sprintf("has %d bytes that %s lacks, and spec.failover.maximumLag is %d: it is left as it is%s", bytes, h, v.MaximumLag, v.consentAdvice(h))
	}
	return &d
}
