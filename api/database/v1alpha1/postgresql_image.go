package v1alpha1

// EffectiveImage returns the container image that instances run: that of the spec, else the official one of the version.
func (s *PostgreSQLSpec) EffectiveImage() string {
	if s.Image != "" {
		return s.Image
	}
	return "docker.io/library/postgres:" + s.Version
}

// ParameterValues returns the parameters as PostgreSQL reads them.
func (s *PostgreSQLSpec) ParameterValues() map[string]string {
	out := make(map[string]string, len(s.Parameters))
	for name, value := range s.Parameters {
		out[name] = value.String()
	}
	return out
}

// OwnerName returns the role that owns the database DatabaseName.
func (s *PostgreSQLSpec) OwnerName() Identifier {
	if s.Owner.Name != "" {
		return s.Owner.Name
	}
	return s.DatabaseName
}
