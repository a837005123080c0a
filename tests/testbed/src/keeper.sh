# Started once per test process, in a process group of its own. Reads what to guard, one line each;
# the end of the input means that the test process is gone, whatever ended it.
trap '' HUP INT TERM
nl='
'
pids=' '
folders=$nl

while IFS= read -r line; do
  value=${line#* }
  case $line in
    'guard-process '*) pids="$pids$value " ;;
    'guard-folder '*) folders="$folders$value$nl" ;;
    'forget-process '*)
      case $pids in *" $value "*) pids="${pids%%" $value "*} ${pids#*" $value "}" ;; esac ;;
    'forget-folder '*)
      case $folders in *"$nl$value$nl"*) folders="${folders%%"$nl$value$nl"*}$nl${folders#*"$nl$value$nl"}" ;; esac ;;
  esac
done

for pid in $pids; do
  kill -s KILL -- "-$pid" 2>/dev/null
  kill -s KILL "$pid" 2>/dev/null
done

# A process that is just dying may still create a file behind rm's back.
IFS=$nl
set -f
tries=0
while [ "$tries" -lt 100 ]; do
  left=
  for folder in $folders; do
    rm -rf -- "$folder" 2>/dev/null
    [ -e "$folder" ] && left=yes
  done
  [ -z "$left" ] && exit 0
  tries=$((tries + 1))
  sleep 0.1
done
