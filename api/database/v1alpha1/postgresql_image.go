package v1alpha1

// EffectiveImage returns the container image that instances run: that of the spec, else the official one of the version.
func (s *PostgreSQLSpec) EffectiveImage() string {
	if s.Image != "" {
		return s.Image
	}
	return "docker.io/library/postgres:" + s.Version
}
