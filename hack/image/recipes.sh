# shellcheck shell=bash disable=SC2034 # stand-ins.sh uses the variables
# The stand-in images. Source this file in hack/image/stand-ins.sh.

# The images that the local cluster and the demo need, all images, and those that are built only by name, because their Debian
# release may remove the packages at any time.
cluster_images='pause coredns busybox opm olm nginx nginx-unprivileged'
all_images="$cluster_images scorecard-test debian-bookworm postgres-15 mysql mongo redis debian-trixie postgres-17 valkey stores
  debian-bullseye postgres-13 postgres-17-alpine"
on_demand_images='debian-forky postgres-18'

path=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# tags REPOSITORY TAG...: sets the names of the image.
tags() {
  local repository=$1
  shift
  names=("${@/#/$repository:}")
}

# system_user NAME ID HOME: prints a script that creates a user with the ID of the official image.
system_user() { echo "groupadd -r -g $2 $1; useradd -r -u $2 -g $1 -d $3 -s /bin/sh $1"; }

# recipe NAME: sets the variables of an image:
#
#   names     the names to push it under
#   config    its configuration, the content of a JSON object
#   from      the image that it is built on; an image with packages contains the files of that image
#   suite     the Debian release to bootstrap
#   packages  the Debian packages to install
#   before    a script to run in the image before the installation
#   after     a script to run in the image after the installation
#   files     the directories in rootfs/ to copy
#   tools     programs of hack/tools to copy, as FAMILY/PROGRAM=PATH
#   finish    a script to run at last, on the host, in the image's directory
recipe() {
  local version
  names=() config='' from='' suite='' packages='' before=: after=: files='' tools='' finish=:
  case $1 in
  pause)
    names=(registry.k8s.io/pause:3.10)
    config='"User":"65535:65535","Entrypoint":["/pause"],"Env":["'$path'"]'
    finish='CGO_ENABLED=0 go -C "$OLDPWD/hack" build -trimpath -buildvcs=false -ldflags="-s -w" -o "$PWD/pause" ./image/pause'
    ;;
  coredns)
    names=(registry.k8s.io/coredns/coredns:v1.14.1)
    tools=coredns/coredns=/coredns
    config='"User":"65532:65532","Entrypoint":["/coredns"],"WorkingDir":"/","Env":["'$path'"]'
    ;;
  busybox) # the scorecard unpacks bundles with this image
    names=(docker.io/library/busybox:{1.36,latest} quay.io/operator-framework/scorecard-{untar,storage}:latest)
    config='"Cmd":["sh"],"Env":["'$path'"]'
    finish='install -d bin; install -d -m 700 root; install -d -m 1777 tmp
get() { apt-get -q -o Acquire::Retries=5 -o APT::Sandbox::User=root download busybox-static; }
get || { apt-get -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 update && get; }
dpkg-deb -x busybox-static_*.deb deb
mv deb/bin/busybox bin/ || mv deb/usr/bin/busybox bin/
rm -r deb busybox-static_*.deb
for applet in $(bin/busybox --list); do [ $applet = busybox ] || ln -s busybox bin/$applet; done'
    ;;
  opm)
    names=(quay.io/operator-framework/opm:{v1.73.0,latest})
    from=busybox tools='opm/opm=/bin/opm opm/grpc_health_probe=/bin/grpc_health_probe'
    config='"User":"1001","Entrypoint":["/bin/opm"],"WorkingDir":"/","Env":["'$path'"]'
    ;;
  olm)
    names=(quay.io/operator-framework/olm:v0.45.0)
    from=busybox
    tools='olm/olm=/bin/olm olm/catalog=/bin/catalog olm/package-server=/bin/package-server olm/copy-content=/bin/copy-content
      olm/cpb=/bin/cpb'
    config='"User":"1001","Entrypoint":["/bin/olm"],"WorkingDir":"/","Env":["'$path'"]'
    ;;
  scorecard-test)
    names=(quay.io/operator-framework/scorecard-test:v1.42.2)
    from=busybox tools=operator-sdk/scorecard-test=/usr/local/bin/scorecard-test
    config='"User":"1001","Entrypoint":["/usr/local/bin/scorecard-test"],"WorkingDir":"/opt/scorecard-test",'
    config=$config'"Env":["'$path'","HOME=/opt/scorecard-test","USER_NAME=scorecard-test","USER_UID=1001"]'
    finish='install -d opt/scorecard-test'
    ;;
  debian-*)
    suite=${1#*-}
    tags docker.io/library/debian "$suite" "$suite-slim"
    config='"Cmd":["bash"],"Env":["'$path'"]'
    finish='rm -rf usr/share/zoneinfo/right'
    ;;
  nginx) # it replaces all versions: Fettle's tests do not depend on the version
    tags docker.io/library/nginx 1.27 1.21 1.25 1.26 1.28 alpine stable stable-alpine latest
    from=debian-bookworm packages=nginx files=nginx
    before=$(system_user nginx 101 /nonexistent)
    after='rm -rf /etc/nginx/sites-available /etc/nginx/sites-enabled /etc/nginx/modules-enabled /etc/nginx/snippets /var/www
ln -sf /dev/stdout /var/log/nginx/access.log
ln -sf /dev/stderr /var/log/nginx/error.log
for d in client proxy fastcgi uwsgi scgi; do install -d -o nginx -g root /var/cache/nginx /var/cache/nginx/${d}_temp; done
test -s /usr/share/nginx/html/index.html'
    finish='install -d docker-entrypoint.d'
    config='"Entrypoint":["/docker-entrypoint.sh"],"Cmd":["nginx","-g","daemon off;"],"StopSignal":"SIGQUIT","Env":["'$path'"],'
    config=$config'"ExposedPorts":{"80/tcp":{}}'
    ;;
  nginx-unprivileged)
    recipe nginx
    config=${config/80/8080}',"User":"101"'
    tags docker.io/nginxinc/nginx-unprivileged 1.27 1.25 alpine stable stable-alpine latest
    from=nginx packages='' before=: after=: files=nginx-unprivileged finish=:
    ;;
  mysql) # Debian has MariaDB in the place of MySQL
    names=(docker.io/library/mysql:{8,8.0,8.4,latest} docker.io/library/mariadb:{10.11,11.8,latest})
    from=debian-bookworm packages='mariadb-server mariadb-client' files='mysql gosu'
    before=$(system_user mysql 999 /var/lib/mysql)
    after='rm -rf /var/lib/mysql; install -d -o mysql -g mysql -m 0777 /var/lib/mysql'
    finish='install -d docker-entrypoint-initdb.d; install -d -m 777 run/mysqld'
    config='"Entrypoint":["docker-entrypoint.sh"],"Cmd":["mysqld"],"WorkingDir":"/","Env":["'$path'"],'
    config=$config'"ExposedPorts":{"3306/tcp":{}},"Volumes":{"/var/lib/mysql":{}}'
    ;;
  mongo) # FerretDB, which stores the data in SQLite, in the place of mongod; MongoDB's own programs for dumps
    tags docker.io/library/mongo 8.0 8 latest
    from=debian-bookworm files=mongo
    tools='databases/ferretdb=/usr/bin/ferretdb databases/mongodump=/usr/bin/mongodump databases/mongorestore=/usr/bin/mongorestore'
    finish='install -d -m 777 data data/db'
    config='"User":"999","Entrypoint":["docker-entrypoint.sh"],"Cmd":["mongod"],"WorkingDir":"/data","Env":["'$path'"],'
    config=$config'"ExposedPorts":{"27017/tcp":{}},"Volumes":{"/data/db":{}}'
    ;;
  stores) # the object stores of the end-to-end tests
    names=(ghcr.io/fettle-dev/stores:test)
    from=debian-trixie packages=nodejs
    tools='stores/versitygw=/usr/local/bin/versitygw stores/fake-gcs-server=/usr/local/bin/fake-gcs-server'
    finish='bin=$("$OLDPWD/hack/azurite.sh"); cp -r "$bin/../.." opt/azurite
ln -s /opt/azurite/node_modules/.bin/azurite-blob usr/local/bin/azurite-blob'
    config='"User":"65532:65532","Env":["'$path'"]'
    ;;
  redis | valkey)
    if [ "$1" = redis ]; then
      from=debian-bookworm
      tags docker.io/library/redis 7 7-alpine latest
    else
      from=debian-trixie
      tags docker.io/valkey/valkey 8 8-alpine latest
    fi
    packages="$1-server $1-tools" files="$1 gosu"
    before=$(system_user "$1" 999 /data)
    after="install -d -o $1 -g $1 /data"
    config='"Entrypoint":["docker-entrypoint.sh"],"Cmd":["'$1'-server"],"WorkingDir":"/data","Env":["'$path'"],'
    config=$config'"ExposedPorts":{"6379/tcp":{}},"Volumes":{"/data":{}}'
    ;;
  postgres-*-alpine) recipe_postgres_alpine "${1//[!0-9]/}" ;;
  postgres-*) recipe_postgres "${1#*-}" ;;
  *) return 1 ;;
  esac
}

recipe_postgres() {
  local version=$1 data=/var/lib/postgresql/data volume=/var/lib/postgresql/data aliases='-A /usr/share/locale/locale.alias'
  case $version in
  13) from=debian-bullseye ;;
  15) from=debian-bookworm ;;
  17) from=debian-trixie ;;
  18) # it has another data directory and volume, and its Debian release has no locale.alias
    from=debian-forky data=/var/lib/postgresql/18/docker volume=/var/lib/postgresql aliases=
    ;;
  *) return 1 ;;
  esac
  tags docker.io/library/postgres "$version" "$version-${from#*-}"
  packages="postgresql-$version locales" files='postgres gosu'
  before=$(system_user postgres 999 /var/lib/postgresql)
  after="localedef -i en_US -c -f UTF-8 $aliases en_US.UTF-8
rm -rf /var/lib/postgresql/$version /etc/postgresql/$version
install -d -o postgres -g postgres /var/lib/postgresql
install -d -o postgres -g postgres -m 1777 $volume
sed -i \"s/^#listen_addresses = 'localhost'/listen_addresses = '*'/\" /usr/share/postgresql/$version/postgresql.conf.sample
grep -q \"^listen_addresses = '\*'\" /usr/share/postgresql/$version/postgresql.conf.sample"
  # Without the JIT compiler, which is most of the packages' size.
  finish='ln -s usr/local/bin/docker-entrypoint.sh .
install -d docker-entrypoint-initdb.d; install -d -m 3777 run/postgresql
rm -rf usr/lib/postgresql/*/lib/bitcode usr/lib/postgresql/*/lib/llvmjit* usr/lib/*/libLLVM* usr/lib/*/libz3.so* usr/lib/llvm-*'
  config='"Entrypoint":["docker-entrypoint.sh"],"Cmd":["postgres"],"StopSignal":"SIGINT","WorkingDir":"/",'
  config=$config'"Env":["'$path:/usr/lib/postgresql/$version/bin'","LANG=en_US.utf8","PG_MAJOR='$version'","PGDATA='$data'"],'
  config=$config'"ExposedPorts":{"5432/tcp":{}},"Volumes":{"'$volume'":{}}'
}

# recipe_postgres_alpine has the layout of the official Alpine images: UID 70, binaries in /usr/local/bin, busybox instead of GNU
# tools, only the locales C, C.UTF-8 and ICU's, and none of Debian's PostgreSQL directories. The binaries are Debian's, with
# glibc. PostgreSQL finds its libraries relative to its binaries, so the links in /usr/local/bin point to a directory below
# /usr/local.
recipe_postgres_alpine() {
  local version=$1
  recipe_postgres "$version"
  tags docker.io/library/postgres "$version-alpine"
  config=${config/:\/usr\/lib\/postgresql\/$version\/bin/}
  from=postgres-$version packages=busybox-static before=: finish='install -d -m 3777 run/postgresql'
  # shellcheck disable=SC2016 # the image's shell expands
  after=version=$version'
groupmod -g 70 postgres
usermod -u 70 -g 70 postgres
chown -R postgres:postgres /var/lib/postgresql
mkdir -p /usr/local/lib/postgresql /usr/local/share/postgresql
cp -a /usr/lib/postgresql/$version /usr/local/lib/postgresql/
cp -a /usr/share/postgresql/$version /usr/local/share/postgresql/
for program in /usr/local/lib/postgresql/$version/bin/*; do ln -s "$program" /usr/local/bin/; done
rm -rf /usr/lib/postgresql /usr/share/postgresql /usr/share/postgresql-common /usr/lib/locale/locale-archive /usr/share/perl* /usr/lib/*/perl*
for program in /usr/bin/*; do [ -e "$program" ] || rm "$program"; done
/usr/local/bin/postgres --version
busybox=$(command -v busybox)
for applet in $(busybox --list); do
  case $applet in setpriv | busybox) ;; *) $busybox rm -f /usr/bin/$applet /usr/sbin/$applet; $busybox ln -s $busybox /usr/bin/$applet ;; esac
done
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/bin/perl* /usr/bin/locale* /usr/lib/apt /usr/lib/dpkg /var/lib/dpkg
test "$(id -u postgres)" = 70'
}
