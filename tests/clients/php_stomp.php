<?php
// PHP's stomp extension as its users write it: `php php_stomp.php PORT CHECK NAME` does one check of test_php_stomp.py.
//
// It has CONNECT without accept-version, hence STOMP 1.0, where a check does not ask for another.  The destination has
// NAME in it.  A check that finds something else than it should, or a warning of PHP, ends with status 1 and a sentence.

const PATIENCE = 8;
const SHORT = 100_000; // microseconds in which nothing may come

[, $port, $check, $name] = $argv;
$queue = "/queue/$name";

set_error_handler(function (int $level, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $level, $file, $line);
});

function connect(array $headers = []): Stomp
{
    global $port;
    $stomp = new Stomp("tcp://127.0.0.1:$port", '', '', $headers);
    $stomp->setReadTimeout(PATIENCE);
    return $stomp;
}

function same(mixed $expected, mixed $found, string $what): void
{
    if ($expected !== $found) {
        throw new Exception("$what: " . shown($found) . ' instead of ' . shown($expected));
    }
}

function shown(mixed $value): string
{
    $text = is_string($value) ? $value : json_encode($value);
    return strlen($text) > 200 ? substr(bin2hex($text), 0, 60) . '... of ' . strlen($text) . ' bytes' : "'$text'";
}

// Send it, and wait until the gateway has it.
function sent(Stomp $stomp, string $body, array $headers = []): void
{
    global $queue;
    static $number = 0;
    $receipt = 'sent-' . ++$number;
    same(true, $stomp->send($queue, $body, $headers + ['receipt' => $receipt]), "RECEIPT $receipt");
}

function subscribed(Stomp $stomp, string $ack = 'auto', array $headers = []): void
{
    global $queue;
    $headers += ['ack' => $ack, 'id' => '1', 'receipt' => 'subscribed'];
    same(true, $stomp->subscribe($queue, $headers), 'RECEIPT of SUBSCRIBE');
}

function message(Stomp $stomp): StompFrame
{
    $frame = $stomp->readFrame();
    same(true, $frame instanceof StompFrame, 'there is a frame');
    same('MESSAGE', $frame->command, 'command');
    return $frame;
}

function bodies(Stomp $stomp, int $count): array
{
    return array_map(fn() => message($stomp)->body, range(1, $count));
}

function nothing(Stomp $stomp): void
{
    $stomp->setReadTimeout(0, SHORT);
    same(false, $stomp->readFrame(), 'readFrame of an idle connection');
    $stomp->setReadTimeout(PATIENCE);
}

$checks = [
    'connect' => function (): void {
        $stomp = connect();
        same(true, strlen($stomp->getSessionId()) > 0, 'there is a session');
        same(false, $stomp->getSessionId() === connect()->getSessionId(), 'two connections are one session');
        same(false, $stomp->error(), 'error');
    },

    'send' => function () use ($queue): void {
        $stomp = connect();
        subscribed($stomp);
        $headers = ['kind' => 'news', 'content-type' => 'text/plain', 'ключ' => '値 € 😀'];
        sent($stomp, 'grüße 👋', $headers);
        $frame = message($stomp);
        same('grüße 👋', $frame->body, 'body');
        same($queue, $frame->headers['destination'], 'destination');
        foreach ($headers as $key => $value) {
            same($value, $frame->headers[$key], "header $key");
        }
    },

    'receipt' => function () use ($queue): void {
        $stomp = connect();
        foreach (['plain', 'with space', '€-😀'] as $receipt) {
            same(true, $stomp->subscribe($queue, ['id' => $receipt, 'receipt' => $receipt]), "SUBSCRIBE $receipt");
            same(true, $stomp->begin($receipt, ['receipt' => "b $receipt"]), "BEGIN $receipt");
            same(true, $stomp->send($queue, '1', ['transaction' => $receipt, 'receipt' => "s $receipt"]), 'SEND');
            same(true, $stomp->commit($receipt, ['receipt' => "c $receipt"]), "COMMIT $receipt");
            same(true, $stomp->ack(message($stomp)->headers['message-id'], ['receipt' => "a $receipt"]), 'ACK');
            same(true, $stomp->unsubscribe($queue, ['id' => $receipt, 'receipt' => "u $receipt"]), 'UNSUBSCRIBE');
        }
    },

    // subscribe() has ack:client where it is not told otherwise.
    'ack' => function () use ($queue): void {
        $stomp = connect();
        array_map(fn(string $body) => sent($stomp, $body), ['1', '2', '3']);
        $stomp->subscribe($queue);
        $frames = [message($stomp), message($stomp), message($stomp)];
        same(true, $stomp->ack($frames[1]), 'ACK of a frame');
        unset($stomp);
        $later = connect();
        subscribed($later, 'client');
        $frame = message($later);
        same('3', $frame->body, 'what was not acknowledged');
        same(true, $later->ack($frame->headers['message-id'], ['receipt' => 'acknowledged']), 'ACK of a message-id');
        unset($later);
        $last = connect();
        subscribed($last);
        sent($last, 'end');
        same('end', message($last)->body, 'what follows');
    },

    'nack' => function (): void {
        $stomp = connect(['accept-version' => '1.1']);
        subscribed($stomp, 'client-individual');
        sent($stomp, 'refused');
        same(true, $stomp->nack(message($stomp), ['receipt' => 'nacked']), 'NACK');
        $again = message($stomp);
        same('refused', $again->body, 'body');
        same('true', $again->headers['redelivered'], 'redelivered');
        same(true, $stomp->ack($again, ['receipt' => 'acknowledged']), 'ACK');
        nothing($stomp);
    },

    // In STOMP 1.0, which has neither; brokers take both.
    'individual' => function (): void {
        $stomp = connect();
        subscribed($stomp, 'client-individual');
        array_map(fn(string $body) => sent($stomp, $body), ['1', '2', '3']);
        $frames = [message($stomp), message($stomp), message($stomp)];
        same(true, $stomp->ack($frames[1], ['receipt' => 'acknowledged']), 'ACK');
        same(true, $stomp->nack($frames[2], ['receipt' => 'nacked']), 'NACK');
        $again = message($stomp);
        same('3', $again->body, 'what was refused');
        same(true, $stomp->ack($again, ['receipt' => 'acknowledged again']), 'ACK');
        unset($stomp);
        $later = connect();
        subscribed($later);
        sent($later, 'end');
        same(['1', 'end'], bodies($later, 2), 'what was not acknowledged, and what follows');
    },

    'redelivery' => function (): void {
        $stomp = connect();
        subscribed($stomp, 'client');
        array_map(fn(string $body) => sent($stomp, $body), ['1', '2']);
        $first = message($stomp);
        same('1', $first->body, 'body');
        same('false', $first->headers['redelivered'] ?? 'false', 'redelivered');
        unset($stomp);
        $later = connect();
        subscribed($later);
        $again = message($later);
        same('1', $again->body, 'body');
        same('true', $again->headers['redelivered'], 'redelivered');
        same($first->headers['message-id'], $again->headers['message-id'], 'message-id');
        same('2', message($later)->body, 'body of the second');
    },

    'commit' => function () use ($queue): void {
        $stomp = connect();
        subscribed($stomp);
        $stomp->begin('t1');
        $stomp->send($queue, 'first', ['transaction' => 't1']);
        $stomp->send($queue, 'second', ['transaction' => 't1']);
        sent($stomp, 'outside');
        same('outside', message($stomp)->body, 'what is not of the transaction');
        nothing($stomp);
        same(true, $stomp->commit('t1', ['receipt' => 'committed']), 'COMMIT');
        same(['first', 'second'], bodies($stomp, 2), 'what was committed');
    },

    'abort' => function () use ($queue): void {
        $stomp = connect();
        sent($stomp, 'stays');
        subscribed($stomp, 'client');
        $stomp->begin('t1');
        $stomp->send($queue, 'never', ['transaction' => 't1']);
        $stomp->ack(message($stomp), ['transaction' => 't1']);
        same(true, $stomp->abort('t1', ['receipt' => 'aborted']), 'ABORT');
        unset($stomp);
        $later = connect();
        subscribed($later);
        sent($later, 'end');
        same(['stays', 'end'], bodies($later, 2), 'what there is');
    },

    'order' => function () use ($queue): void {
        $bodies = array_map(fn(int $number) => "message $number", range(1, 500));
        $stomp = connect();
        array_map(fn(string $body) => $stomp->send($queue, $body), $bodies);
        subscribed($stomp);
        same($bodies, bodies($stomp, 500), 'order');
    },

    'large_body' => function (): void {
        $body = str_repeat('0123456789abcdef', 64 * 1024);
        $stomp = connect();
        subscribed($stomp);
        sent($stomp, $body);
        same($body, message($stomp)->body, 'body');
        sent($stomp, 'after it');
        same('after it', message($stomp)->body, 'what follows');
    },

    'binary_body' => function (): void {
        $body = str_repeat(implode('', array_map(chr(...), range(0, 255))), 4) . "\0\n\0";
        $stomp = connect();
        subscribed($stomp);
        sent($stomp, $body, ['content-type' => 'application/octet-stream']);
        $frame = message($stomp);
        same($body, $frame->body, 'body');
        same('application/octet-stream', $frame->headers['content-type'], 'content-type');
        sent($stomp, '');
        same('', (string) message($stomp)->body, 'an empty body');
        sent($stomp, 'after it');
        same('after it', message($stomp)->body, 'what follows');
    },

    'time_out' => function (): void {
        $stomp = connect();
        subscribed($stomp);
        $stomp->setReadTimeout(0, SHORT);
        $begin = microtime(true);
        same(false, $stomp->readFrame(), 'readFrame');
        same(true, microtime(true) - $begin >= SHORT / 1e6, 'it waits as long as it was told');
        same(false, $stomp->hasFrame(), 'hasFrame of an idle connection');
        $stomp->setReadTimeout(PATIENCE);
        sent(connect(), 'comes');
        same(true, $stomp->hasFrame(), 'hasFrame');
        same('comes', message($stomp)->body, 'body');
    },

    // All of them come in one piece; behind each body the extension reads two bytes, and wants NUL and LF.
    'waiting' => function (): void {
        $stomp = connect();
        array_map(fn(string $body) => sent($stomp, $body), ['1', '2', '3']);
        subscribed($stomp);
        same(['1', '2', '3'], bodies($stomp, 3), 'what waited');
        nothing($stomp);
    },

    'unsubscribe' => function () use ($queue): void {
        $stomp = connect();
        subscribed($stomp);
        sent($stomp, 'before');
        same('before', message($stomp)->body, 'body');
        same(true, $stomp->unsubscribe($queue, ['id' => '1', 'receipt' => 'unsubscribed']), 'UNSUBSCRIBE');
        sent($stomp, 'after');
        nothing($stomp);
        subscribed($stomp);
        same('after', message($stomp)->body, 'what waited');
    },

    'error' => function () use ($queue): void {
        $stomp = connect();
        $stomp->subscribe($queue, ['ack' => 'sometimes']);
        try {
            $stomp->readFrame();
            throw new Exception('no ERROR was read');
        } catch (StompException $error) {
            same('unknown ack mode', $error->getMessage(), 'message');
            same(true, str_contains($error->getDetails(), 'sometimes'), 'the details name it');
        }
        $stomp = connect();
        $stomp->begin('t1');
        same(false, $stomp->begin('t1', ['receipt' => 'begun twice']), 'BEGIN of what is begun');
        same(true, str_contains($stomp->error(), 't1'), 'the error names it');
    },
];

try {
    $checks[$check]();
} catch (Throwable $error) {
    fwrite(STDERR, "$check, line {$error->getLine()}: " . get_class($error) . ": {$error->getMessage()}\n");
    exit(1);
}
