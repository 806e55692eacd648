"""Real clients against a real gateway: stomp.py, @stomp/stompjs in node and in Chromium behind nginx."""
