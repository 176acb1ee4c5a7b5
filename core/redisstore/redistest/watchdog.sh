# Usage: sh -c "$watchdog" watchdog directory log [command [argument ...]]
#
# Runs the command, writes its process id to the standard output, and waits on
# the standard input, which is a pipe that only the starting program holds. When
# the pipe ends, however that program ended, the command is killed and the
# directory removed. The word "leave" in the pipe ends the command and leaves
# the directory.
#
# File 3 of the command is the standard output: its reader sees the end of it
# when the command ends. SIGKILL, since a stopped process acts on no other.
trap '' HUP INT QUIT TERM PIPE
PATH=${PATH:+$PATH:}/usr/bin:/bin
directory=$1
log=$2
shift 2
pid=
if [ $# -gt 0 ]; then
	"$@" </dev/null 3>&1 >>"$log" 2>&1 &
	pid=$!
fi
echo "$pid"
exec >/dev/null
word=
read -r word
if [ -n "$pid" ]; then
	kill -9 "$pid"
	wait "$pid"
fi
[ "$word" = leave ] || rm -rf "$directory"
exit 0
