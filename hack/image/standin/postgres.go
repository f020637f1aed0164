package standin

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// postgres omits the JIT compiler, which is most of the packages' size.
func postgres(version, suite string) *Recipe {
	data, volume := postgresDirs(version)
	aliases := "-A /usr/share/locale/locale.alias "
	if suite == forky {
		aliases = "" // forky does not have the file
	}
	return &Recipe{
		Name: "postgres-" + version, From: "debian-" + suite,
		Images:   versions("docker.io/library/postgres", version, version+"-"+suite),
		Packages: []string{"postgresql-" + version, "locales"},
		Files:    []string{"postgres", "gosu"},
		Links:    map[string]string{"/docker-entrypoint.sh": "usr/local/bin/docker-entrypoint.sh"},
		Folders:  map[string]int64{"/docker-entrypoint-initdb.d": 0o755, "/run/postgresql": 0o3777},
		Without: []string{
			"/usr/lib/postgresql/*/lib/bitcode", "/usr/lib/postgresql/*/lib/llvmjit*", "/usr/lib/*/libLLVM*", "/usr/lib/*/libz3.so*", "/usr/lib/llvm-*",
		},
		Before: systemUser("postgres", "999", "/var/lib/postgresql"),
		After: strings.NewReplacer("VERSION", version, "VOLUME", volume, "ALIASES", aliases).Replace(`localedef -i en_US -c -f UTF-8 ALIASESen_US.UTF-8
rm -rf /var/lib/postgresql/VERSION /etc/postgresql/VERSION
install -d -o postgres -g postgres -m 0755 /var/lib/postgresql
install -d -o postgres -g postgres -m 1777 VOLUME
sed -i "s/^#listen_addresses = 'localhost'/listen_addresses = '*'/" /usr/share/postgresql/VERSION/postgresql.conf.sample
grep -q "^listen_addresses = '\*'" /usr/share/postgresql/VERSION/postgresql.conf.sample`),
		Config: v1.Config{
			Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"postgres"}, StopSignal: "SIGINT", WorkingDir: "/",
			Env: []string{
				defaultPath + ":/usr/lib/postgresql/" + version + "/bin", "LANG=en_US.utf8", "PG_MAJOR=" + version, "PGDATA=" + data,
			},
			ExposedPorts: map[string]struct{}{"5432/tcp": {}},
			Volumes:      map[string]struct{}{volume: {}},
		},
	}
}

// postgresDirs returns the data directory and the volume of the official image. Version 18 changed both.
func postgresDirs(version string) (data, volume string) {
	if len(version) == 2 && version >= "18" {
		return "/var/lib/postgresql/" + version + "/docker", "/var/lib/postgresql"
	}
	return "/var/lib/postgresql/data", "/var/lib/postgresql/data"
}

// postgresAlpine has the layout of the official Alpine images: UID 70, binaries in /usr/local/bin, busybox instead of GNU tools, only the
// locales C, C.UTF-8 and ICU's, and none of Debian's PostgreSQL directories. The binaries are Debian's, with glibc. PostgreSQL finds its
// libraries relative to its binaries, so the links in /usr/local/bin point to a directory below /usr/local.
func postgresAlpine(version, suite string) *Recipe {
	r := postgres(version, suite)
	r.Name, r.From = "postgres-"+version+"-alpine", "postgres-"+version
	r.Images = versions("docker.io/library/postgres", version+"-alpine")
	r.Packages = []string{"busybox-static"}
	r.Links, r.Before = nil, ":"
	r.After = strings.ReplaceAll(`groupmod -g 70 postgres
usermod -u 70 -g 70 postgres
chown -R postgres:postgres /var/lib/postgresql
mkdir -p /usr/local/lib/postgresql /usr/local/share/postgresql
cp -a /usr/lib/postgresql/VERSION /usr/local/lib/postgresql/
cp -a /usr/share/postgresql/VERSION /usr/local/share/postgresql/
for program in /usr/local/lib/postgresql/VERSION/bin/*; do ln -s "$program" /usr/local/bin/; done
rm -rf /usr/lib/postgresql /usr/share/postgresql /usr/share/postgresql-common /usr/lib/locale/locale-archive /usr/share/perl* /usr/lib/*/perl*
for program in /usr/bin/*; do [ -e "$program" ] || rm "$program"; done
/usr/local/bin/postgres --version
busybox=$(command -v busybox)
for applet in $(busybox --list); do
  case $applet in setpriv | busybox) ;; *) $busybox rm -f /usr/bin/$applet /usr/sbin/$applet; $busybox ln -s $busybox /usr/bin/$applet ;; esac
done
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/bin/perl* /usr/bin/locale* /usr/lib/apt /usr/lib/dpkg /var/lib/dpkg
test "$(id -u postgres)" = 70`, "VERSION", version)
	r.Config.Env[0] = defaultPath
	return r
}
