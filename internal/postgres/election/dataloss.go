package election

import "fmt"

// With asynchronous replication a failover may lose the last commits. [Config.MaximumLag] bounds the loss, in bytes of WAL:
//
//   - An instance that lacks more of the last primary's known WAL, or may lack more, is not elected.
//   - After a clean shutdown of the last primary, the missing WAL is known. A candidate that lacks any of it waits minutes for one that has all.
//   - Data with more diverged WAL than that is not rewound or recloned.
//
// Only a person decides otherwise, for one instance at a time: the instance that becomes, or is, the primary without that WAL
// ([Config.AcceptDataLoss]). A preferred primary is no such decision. The lost data is kept on its volume. With synchronous replication
// R + W > N determines which commits were confirmed, and these rules do not apply.

// boundedByQuorum reports that the settings of synchronous replication determine which commits were confirmed, and not the amount
// of missing WAL.
func (v *decider) boundedByQuorum() bool { return v.Synchronous > 0 && len(v.quorums()) > 0 }

// missingBytes returns how many bytes are missing here of what the last primary is known to have written: known by the record,
// and by the last answer of that primary, which cannot renew the record during an outage of the API server. ok is false if that
// is unknown.
func (v *decider) missingBytes() (bytes uint64, ok bool) {
	l := v.lease
	if p, ok := v.peer(l.Primary, 1); ok && p.Role == Primary && p.Position.Timeline == l.End.Timeline && p.Position.LSN > l.End.LSN && v.sameSystemID(p.SystemID) {
		l.End = p.Position
	}
	if v.recordLost() && !v.boundedByQuorum() && v.peersMissing() { // the missing peer may have been the last primary
		return 0, false
	}
	return l.missing(v.server.Position)
}

// excessiveLag returns why too much would be lost if this instance became the primary; zero if that is not so, or was accepted.
// (13)
func (v *decider) excessiveLag() cause {
	lack, known := v.missingBytes()
	switch {
	case v.AcceptDataLoss == v.Self.Name, known && (v.boundedByQuorum() || lack <= v.MaximumLag):
		return cause{}
	case !known:
		return cause{CodeDataLossUnknown, "amount of missing WAL is unknown: waiting for the other instances" + v.consentAdvice(v.Self.Name)}
	}
	return cause{CodeLagAboveMaximum, fmt.Sprintf("lacks %d bytes of WAL of %s, spec.failover.maximumLag is %d: waiting for %s%s",
		lack, v.lease.Primary, v.MaximumLag, v.lease.Primary, v.consentAdvice(v.Self.Name))}
}

// lagsTooFar reports that a peer lacks too much to take the lease: no candidate waits for it.
func (v *decider) lagsTooFar(p State) bool {
	lack, known := v.lease.missing(p.Position)
	return !v.boundedByQuorum() && known && lack > v.MaximumLag
}

// consentAdvice says how a person accepts that primary without the missing WAL.
func (v *decider) consentAdvice(primary string) string {
	return "; to accept the loss, annotate the PostgreSQL with fettle.dev/accept-data-loss=" + primary
}

// lacksShutdownWAL reports that the last primary shut down cleanly, and that some of its WAL is not here. (13)
func (v *decider) lacksShutdownWAL() bool {
	lack, _ := v.lease.missing(v.server.Position)
	return v.lease.CleanShutdown && lack > 0 && !v.boundedByQuorum() && !v.wasLastPrimary() && v.AcceptDataLoss != v.Self.Name
}

// divergedBytes returns how many bytes of the WAL here the last primary does not have; ok is false if that is unknown.
func (v *decider) divergedBytes() (bytes uint64, ok bool) {
	p := v.server.Position
	lsn, ok := v.lease.sharedUpTo(p)
	for i := len(v.server.History) - 1; i >= 0 && !ok; i-- { // of a timeline that only this instance has
		lsn, ok = v.lease.sharedUpTo(Position(v.server.History[i]))
	}
	return p.LSN - min(lsn, p.LSN), ok
}

// protectDivergedData returns a decision to keep the data if it holds too much that h lacks; nil if it may be rewound. WAL left
// by a crash is read first. (13)
func (v *decider) protectDivergedData(h string) *Decision {
	s := v.server
	bytes, known := v.divergedBytes()
	d := Decision{Action: Wait{}, ManualIntervention: true, NeedsDataLossConsent: true}
	switch unread := s.Role == Primary && !s.Exact; {
	case v.AcceptDataLoss == h, v.boundedByQuorum(), known && !unread && bytes <= v.MaximumLag:
		return nil
	case unread && s.Process == Down:
		d.Action, d.Code = InspectWAL{}, CodeReadingWAL
		d.Reason = "reading WAL to the end to know what " + h + " lacks" + v.consentAdvice(h)
		d.ManualIntervention, d.NeedsDataLossConsent = v.in.Now >= s.ProcessSince+v.CatchUpWait, v.in.Now >= s.ProcessSince+v.CatchUpWait
	case !known:
		d.Code, d.Reason = CodeDivergenceUnknown, "timeline diverged from "+h+", amount of WAL that "+h+" lacks is unknown: keeping the data"+v.consentAdvice(h)
	default:
		d.Code = CodeDivergenceAboveMaximum
		d.Reason = fmt.Sprintf("has %d bytes of WAL that %s lacks, spec.failover.maximumLag is %d: keeping the data%s",
			bytes, h, v.MaximumLag, v.consentAdvice(h))
	}
	return &d
}
